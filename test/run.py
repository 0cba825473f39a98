#!/usr/bin/env python3
"""Runs the project's tests, stage by stage, and ends with one line: N passed, N failed, N skipped.

    test/run.py                 everything that CI runs
    test/run.py --only a,b      some stages (also those outside the default list)
    test/run.py --list          their names

A stage is a function that returns a list of (name, state, detail) with state passed, failed or skipped; a skipped one says
why. Output of a failing command is printed; logs are under build-test/logs.
"""
import argparse
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build-test", "logs")
sys.path.insert(0, os.path.join(ROOT, "test"))


def run(name, command, timeout, env=None):
    """Runs a command with its output in a log; returns (exit code, output)."""
    os.makedirs(LOGS, exist_ok=True)
    path = os.path.join(LOGS, re.sub(r"[^a-z0-9]+", "-", name) + ".log")
    with open(path, "w+", encoding="utf-8", errors="replace") as log:
        try:
            code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT,
                                  timeout=timeout, env={**os.environ, **(env or {})}).returncode
        except subprocess.TimeoutExpired:
            code = -1
            log.write(f"\ntimed out after {timeout} s\n")
        log.seek(0)
        return code, log.read()


def one(name, command, timeout, env=None):
    code, output = run(name, command, timeout, env)
    if code != 0:
        print(output[-6000:])
    return [(name, "passed" if code == 0 else "failed", f"exit {code}" if code else "")]


def tallied(name, command, timeout, env=None):
    """A command that prints lines "ok NAME", "not ok NAME" or "skip NAME: WHY"."""
    code, output = run(name, command, timeout, env)
    results = []
    for line in output.splitlines():
        m = re.match(r"(ok|not ok|skip) (.*)", line)
        if m:
            state = {"ok": "passed", "not ok": "failed", "skip": "skipped"}[m.group(1)]
            case, _, why = m.group(2).partition(": ")
            results.append((f"{name}/{case}", state, why))
    if code != 0 or not results:
        print(output[-8000:])
        if not any(state == "failed" for _, state, _ in results):
            results.append((name, "failed", f"exit {code}, {len(results)} results"))
    return results


def build(flavour):
    return one(f"build {flavour}", ["tools/build.sh", flavour], 1500)


def tidy():
    return one("tidy", [sys.executable, "tools/tidy.py"], 120)


def meson_suite(flavour, env=None):
    results = build(flavour)
    if results[0][1] == "failed":
        return results
    code, output = run(f"unit {flavour}",
                       ["meson", "test", "-C", flavour, "--no-rebuild", "--suite", "unit", "--print-errorlogs"], 1200, env)
    for line in output.splitlines():
        m = re.match(r"\s*\d+/\d+ (?:hayloft:)?(?:unit / )?(\S.*?)\s+(OK|FAIL|TIMEOUT|SKIP|ERROR)\b", line)
        if m:
            state = {"OK": "passed", "SKIP": "skipped"}.get(m.group(2), "failed")
            results.append((f"{flavour} {m.group(1)}", state, m.group(2)))
    if code != 0:
        print(output[-8000:])
        if not any(s == "failed" for _, s, _ in results):
            results.append((f"unit {flavour}", "failed", f"exit {code}"))
    return results


def unit():
    return meson_suite("build-test")


def asan():
    return meson_suite("build-asan", {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"})


def clang():
    return build("build-clang")


def sim():
    return tallied("sim", ["build-test/test/sim/sim", "--seeds", "500"], 900)


def crash():
    return tallied("crash", [sys.executable, "test/crash/kill.py", "--kills", "200"], 900)


def power():
    return (tallied("power", [sys.executable, "test/crash/power.py", "--cuts", "15"], 600) +
            tallied("power", [sys.executable, "test/crash/power.py", "--cuts", "10", "--fs", "xfs"], 600))


def crash_long():
    return (tallied("sim", ["build-test/test/sim/sim", "--seeds", "20000"], 36000) +
            tallied("crash", [sys.executable, "test/crash/kill.py", "--kills", "10000"], 36000))


def failpoints():
    return tallied("failpoints", [sys.executable, "test/crash/failpoints.py"], 600)


def conformance():
    return (tallied("conformance http", [sys.executable, "test/conformance/run.py"], 600) +
            tallied("conformance https", [sys.executable, "test/conformance/run.py", "--https"], 600))


def e2e():
    return tallied("e2e", [sys.executable, "test/e2e/run.py"], 1500)


def s3_tests():
    if "S3TESTS_DIR" not in os.environ:
        return [("s3-tests", "skipped", "S3TESTS_DIR names no checkout of ceph's s3-tests")]
    return tallied("s3-tests", [sys.executable, "test/conformance/s3_tests.py"], 5400)


def fuzz():
    return tallied("fuzz", [sys.executable, "test/fuzz/run.py", "--seconds", "5"], 600)


STAGES = {
    "tidy": tidy, "unit": unit, "clang": clang, "asan": asan, "sim": sim, "crash": crash, "power": power, "failpoints": failpoints,
    "fuzz": fuzz, "conformance": conformance, "e2e": e2e, "s3-tests": s3_tests,
    "crash-long": crash_long,
}
EXTRA = {"crash-long"}


def present(stage):
    """A stage whose program is not in this tree is not part of it."""
    needs = {"sim": "test/sim/sim.c", "crash": "test/crash/kill.py", "power": "test/crash/power.py", "failpoints": "test/crash/failpoints.py",
             "conformance": "test/conformance/run.py", "e2e": "test/e2e/run.py", "fuzz": "test/fuzz/run.py",
             "s3-tests": "test/conformance/s3_tests.py"}
    return stage not in needs or os.path.exists(os.path.join(ROOT, needs[stage]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated stages")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(STAGES))
        return 0
    chosen = args.only.split(",") if args.only else [s for s in STAGES if s not in EXTRA and present(s)]
    unknown = [s for s in chosen if s not in STAGES]
    if unknown:
        parser.error(f"unknown stage {unknown[0]}; --list names them")
    needs_build = {"sim", "crash", "power", "crash-long", "failpoints", "conformance", "e2e", "s3-tests"} & set(chosen)
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    failed = []
    if needs_build and "unit" not in chosen:
        chosen = ["unit"] + chosen if args.only is None else chosen
        if build("build-test")[0][1] == "failed":
            return 1
    for stage in chosen:
        start = time.monotonic()
        print(f"== {stage}", flush=True)
        results = STAGES[stage]()
        for name, state, detail in results:
            totals[state] += 1
            if state == "failed":
                failed.append(name)
            if state != "passed":
                print(f"   {state}: {name}{': ' + detail if detail else ''}", flush=True)
        good = sum(1 for r in results if r[1] == "passed")
        print(f"   {good} of {len(results)} passed in {time.monotonic() - start:.0f} s", flush=True)
    for name in failed:
        print(f"FAILED {name}")
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
