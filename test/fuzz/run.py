#!/usr/bin/env python3
"""Builds the fuzz targets and runs each for some seconds over its corpus; a crash leaves its input under build-fuzz/crashes.

    run.py [--seconds 60] [--only NAME,...]   (make fuzz: FUZZ_SECONDS)
    run.py --coverage                         branch coverage of the parsers by the corpora and the unit tests' inputs
"""
import argparse
import glob
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def build(flavour):
    """Only the targets: the program itself cannot be linked with the fuzzer's instrumentation alone."""
    names = [os.path.basename(p)[:-2] for p in sorted(glob.glob(f"{ROOT}/test/fuzz/*.c"))]
    subprocess.run([f"{ROOT}/tools/build.sh", flavour, *[f"test/fuzz/fuzz_{n}" for n in names]], check=True)


def targets(build, only):
    paths = sorted(glob.glob(f"{ROOT}/{build}/test/fuzz/fuzz_*"))
    names = [(os.path.basename(p)[5:], p) for p in paths if os.access(p, os.X_OK) and "." not in os.path.basename(p)]
    return [(n, p) for n, p in names if not only or n in only]


def fuzz(seconds, only):
    build("build-fuzz")
    crashes = f"{ROOT}/build-fuzz/crashes"
    os.makedirs(crashes, exist_ok=True)
    failed = 0
    for name, path in targets("build-fuzz", only):
        grown = f"{ROOT}/build-fuzz/corpus/{name}"
        os.makedirs(grown, exist_ok=True)
        corpus = [grown] + [c for c in [f"{ROOT}/test/fuzz/corpus/{name}"] if os.path.isdir(c)]
        done = subprocess.run([path, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1",
                               f"-artifact_prefix={crashes}/{name}-", *corpus], capture_output=True, text=True, errors="replace")
        runs = [line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line]
        if done.returncode == 0:
            print(f"ok {name}: {runs[0] if runs else '?'} inputs in {seconds} s", flush=True)
        else:
            failed += 1
            print(f"not ok {name}: exit {done.returncode}; the input is in {crashes}", flush=True)
            print(done.stderr[-4000:])
    return 1 if failed else 0


def coverage(only):
    build("build-coverage")
    profiles = []
    binaries = []
    for name, path in targets("build-coverage", only):
        profile = f"{ROOT}/build-coverage/{name}.profraw"
        corpus = [c for c in (f"{ROOT}/test/fuzz/corpus/{name}", f"{ROOT}/build-fuzz/corpus/{name}") if os.path.isdir(c)]
        subprocess.run([path, "-runs=0", *corpus], env={**os.environ, "LLVM_PROFILE_FILE": profile}, capture_output=True)
        profiles.append(profile)
        binaries.append(path)
    merged = f"{ROOT}/build-coverage/all.profdata"
    suffix = "" if subprocess.run(["which", "llvm-profdata"], capture_output=True).returncode == 0 else "-14"
    subprocess.run([f"llvm-profdata{suffix}", "merge", "-o", merged, *profiles], check=True)
    sources = ["src/http/parse.c", "src/http/chunked.c", "src/s3/xml.c", "src/s3/uri.c", "src/s3/auth_parse.c",
               "src/s3/payload.c", "src/s3/payload_chunk.c", "src/s3/payload_headers.c", "src/admin/toml.c", "src/meta/records.c",
               "src/meta/entry.c", "src/meta/keys.c", "src/s3/fields.c"]
    sources = [s for s in sources if os.path.exists(f"{ROOT}/{s}")]
    objects = [binaries[0]] + [a for b in binaries[1:] for a in ("-object", b)]
    return subprocess.run([f"llvm-cov{suffix}", "report", *objects, f"-instr-profile={merged}", "-show-branch-summary",
                           *[f"{ROOT}/build-coverage/../{s}" for s in sources]]).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("FUZZ_SECONDS", "60")))
    parser.add_argument("--only", default="")
    parser.add_argument("--coverage", action="store_true")
    args = parser.parse_args()
    only = set(filter(None, args.only.split(",")))
    return coverage(only) if args.coverage else fuzz(args.seconds, only)


if __name__ == "__main__":
    sys.exit(main())
