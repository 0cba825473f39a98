#!/usr/bin/env python3
"""The project's own conformance suite: starts a store, runs every case of cases_*.py against it and prints a line for each.

    test/conformance/run.py [--https] [--only REGEX] [--list] [--threads N]
"""
import argparse
import glob
import importlib
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import venv_packages  # noqa: E402

venv_packages.use("boto3")
import s3lib  # noqa: E402
import suite  # noqa: E402


def load():
    for path in sorted(glob.glob(f"{HERE}/cases_*.py")):
        importlib.import_module(os.path.basename(path)[:-3])
    names = [f.__name__ for f, _, _ in suite.CASES]
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise SystemExit(f"run.py: two cases are named {', '.join(twice)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--https", action="store_true", help="over TLS, where SDKs frame bodies in another way")
    parser.add_argument("--only", default="", help="cases whose name matches")
    parser.add_argument("--list", action="store_true", help="names and sources")
    parser.add_argument("--threads", type=int, default=4)
    arguments = parser.parse_args()
    load()
    chosen = [c for c in suite.CASES if re.search(arguments.only, c[0].__name__)]
    if arguments.list:
        for function, source, _ in chosen:
            print(f"{function.__name__}: {source}")
        return 0
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_ENDPOINT_URL"):
        os.environ.pop(name, None)
    os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = "/dev/null"
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    failed = 0

    def report(name, why):
        nonlocal failed
        failed += why is not None
        print(f"ok {name}" if why is None else f"not ok {name}: {why}", flush=True)

    with s3lib.Store(tls=arguments.https, config="", bucket="conformance") as store:
        suite.run_all(store, chosen, arguments.threads, report)
        if store.process.poll() is not None:
            report("the_store_still_runs", f"it ended with {store.process.returncode}: {store.log_tail()}")
        code = store.stop()
        report("the_store_ends_in_order", None if code == 0 else f"exit {code}: {store.log_tail()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
