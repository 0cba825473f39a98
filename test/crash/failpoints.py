#!/usr/bin/env python3
"""Every failpoint in the sources is met, and power was cut at it: runs the simulator (which arms them) and those unit tests that
reach what it does not (a damaged record in a scrub, log files beyond the spares). A name that nothing meets fails.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("HAYLOFT_BUILD", f"{ROOT}/build-test")
UNIT_TESTS = ("test_log_*", "test_data_*", "test_volume_*", "test_object_*")


def names():
    found = set()
    for path in glob.glob(f"{ROOT}/src/*/*.c"):
        with open(path, encoding="utf-8") as f:
            found |= set(re.findall(r'FAILPOINT(?:_ERROR)?\("([^"]+)"\)', f.read()))
    return found


def parse(lines, hits, cuts):
    for line in lines:
        m = re.match(r"failpoint (\S+) (\d+) (\d+)$", line.strip())
        if m:
            hits[m.group(1)] = hits.get(m.group(1), 0) + int(m.group(2))
            cuts[m.group(1)] = cuts.get(m.group(1), 0) + int(m.group(3))


def main():
    hits, cuts = {}, {}
    sim = subprocess.run([f"{BUILD}/test/sim/sim", "--first", "100001", "--seeds", "600", "--failpoints"], capture_output=True,
                         text=True)
    parse(sim.stdout.splitlines(), hits, cuts)
    if sim.returncode:
        print("not ok simulator: " + "; ".join(line for line in sim.stdout.splitlines() if line.startswith("not ok"))[:2000])
    with tempfile.NamedTemporaryFile("r") as report:
        for pattern in UNIT_TESTS:
            for path in sorted(glob.glob(f"{BUILD}/test/unit/*/{pattern}")):
                if os.access(path, os.X_OK) and os.path.isfile(path):
                    subprocess.run([path], capture_output=True, env={**os.environ, "HAYLOFT_FAILPOINT_REPORT": report.name})
        parse(report.readlines(), hits, cuts)
    missing = sorted(n for n in names() if hits.get(n, 0) == 0)
    for name in missing:
        print(f"not ok {name}: nothing reaches it")
    total = len(names())
    cut = sum(1 for n in names() if cuts.get(n, 0) > 0)
    print(f"{'not ok' if missing else 'ok'} {total - len(missing)} of {total} failpoints met: at {cut} the simulator cut the power")
    return 1 if missing or sim.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
