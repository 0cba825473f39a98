#!/usr/bin/env python3
"""Runs ceph's s3-tests against a store of its own and compares with s3-tests.passing, the names that must pass.

    S3TESTS_DIR=/path/to/s3-tests test/conformance/s3_tests.py [--http | --https] [-k EXPR] [--update] [--results FILE]

Without --http or --https the suite runs both ways: SDKs frame bodies differently over TLS. A name of the list that does not
pass is a failure; one that passes every way without being on the list is reported, and --update rewrites the list with it.
The checkout stays outside the tree and is only read. Tests that wait for a lifecycle "debug day" are left out.
"""
import argparse
import configparser
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import s3lib  # noqa: E402
import venv_packages  # noqa: E402

LIST = f"{HERE}/s3-tests.passing"
FILES = ["s3tests/functional/test_s3.py", "s3tests/functional/test_headers.py"]
ACCOUNTS = {"s3 main": "s3-main", "s3 alt": "s3-alt", "s3 tenant": "s3-tenant", "iam": "s3-iam", "iam root": "s3-root",
            "iam alt root": "s3-alt-root"}
HEADER = """# Tests of ceph's s3-tests that pass over HTTP and over HTTPS, one a line. A name that stops passing fails the run
# (test/conformance/s3_tests.py); --update rewrites this list. Written with s3-tests {commit}.
"""


def make_accounts(store):
    """Section of the INI file -> its values. The owner that the store names is the access key and its name."""
    sections = {}
    for section, name in ACCOUNTS.items():
        text = store.cli("key", "create", name).stdout
        key = re.search(r"Key ID:\s*(\S+)", text).group(1)
        store.cli("key", "allow", key, "--create-bucket")
        sections[section] = {"display_name": name, "user_id": key, "email": f"{name}@example.com", "access_key": key,
                             "secret_key": re.search(r"Secret key:\s*(\S+)", text).group(1)}
    sections["s3 tenant"]["tenant"] = ""
    sections["s3 main"]["api_name"] = "eu-west-1"  # a LocationConstraint: us-east-1 is none
    return sections


def write_ini(path, store):
    ini = configparser.RawConfigParser()
    ini["DEFAULT"] = {"host": "localhost", "port": str(store.port), "is_secure": str(store.tls), "ssl_verify": "False"}
    ini["fixtures"] = {"bucket prefix": "conf-{random}-"}
    for section, values in make_accounts(store).items():
        ini[section] = values
    with open(path, "w", encoding="ascii") as f:
        ini.write(f)


def run_pytest(checkout, directory, alone, arguments):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    environment |= {"S3TEST_CONF": f"{directory}/s3tests.conf", "PYTHONPATH": f"{HERE}:{os.path.dirname(HERE)}", "PYTHONDONTWRITEBYTECODE": "1",
                    "HAYLOFT_S3TESTS_ALONE": str(int(alone)), "HAYLOFT_S3TESTS_REPORT": f"{directory}/report",
                    "AWS_MAX_ATTEMPTS": "2", "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null",
                    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
    command = [venv_packages.program("python"), "-m", "pytest", *FILES, "-p", "s3_tests_plugin", "-p", "no:cacheprovider",
               "-o", "addopts=", "-q", "--tb=line", "--disable-warnings", f"--timeout={arguments.timeout}",
               *([] if alone else ["-n", str(arguments.workers)]), *(["-k", arguments.k] if arguments.k else [])]
    subprocess.run(command, cwd=checkout, env=environment, stdout=sys.stderr, stderr=sys.stderr, check=False)


def run(checkout, tls, arguments):
    """id -> {"outcome", "why", "seconds"} of one way."""
    with tempfile.TemporaryDirectory(prefix="hayloft-s3tests-") as directory, s3lib.Store(tls=tls) as store:
        write_ini(f"{directory}/s3tests.conf", store)
        for alone in (True, False):
            run_pytest(checkout, directory, alone, arguments)
        if store.process.poll() is not None:
            print(f"not ok {'https' if tls else 'http'}/store: it ended with {store.process.returncode}: {store.log_tail(500)!r}")
        results = {}
        if os.path.exists(f"{directory}/report"):
            with open(f"{directory}/report", encoding="utf-8") as f:
                for line in map(json.loads, f):
                    if line["when"] != "teardown":
                        results[line["id"]] = line
        return results


def read_list():
    if not os.path.exists(LIST):
        return []
    with open(LIST, encoding="ascii") as f:
        return [line.split("#")[0].strip() for line in f if line.split("#")[0].strip()]


def compare(listed, runs, selected):
    """Prints a line a listed name and way; returns how many failed."""
    failed = 0
    for name in listed:
        for way, results in runs.items():
            result = results.get(name)
            if result is None and selected:
                continue
            if result is not None and result["outcome"] == "passed":
                print(f"ok {way}/{name}")
            else:
                failed += 1
                print(f"not ok {way}/{name}: {result['why'] if result else 'it did not run'}")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--http", action="store_true", help="only over HTTP")
    parser.add_argument("--https", action="store_true", help="only over HTTPS")
    parser.add_argument("-k", default="", help="pytest's selection by name")
    parser.add_argument("--update", action="store_true", help="rewrite the list of passing names")
    parser.add_argument("--results", help="write all results as JSON")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=120, help="seconds a test")
    arguments = parser.parse_args()
    checkout = os.environ.get("S3TESTS_DIR")
    if not checkout:
        print("skip s3-tests: S3TESTS_DIR names no checkout of ceph's s3-tests")
        return 0
    why = venv_packages.ensure("boto3", "s3-tests")
    if why is not None:
        print(f"skip s3-tests: {why}")
        return 0
    both = arguments.http == arguments.https
    runs = {way: run(checkout, way == "https", arguments) for way in ("http", "https") if both or getattr(arguments, way)}
    if arguments.results:
        with open(arguments.results, "w", encoding="utf-8") as f:
            json.dump(runs, f, indent=1, sort_keys=True)
    for way, results in runs.items():
        states = [r["outcome"] for r in results.values()]
        print(f"{way}: {states.count('passed')} passed, {states.count('failed')} failed, {states.count('skipped')} skipped of {len(states)}")
    passing = set.intersection(*({n for n, r in results.items() if r["outcome"] == "passed"} for results in runs.values()))
    listed = read_list()
    for name in sorted(passing - set(listed)):
        print(f"new {name}")
    if arguments.update:
        commit = subprocess.run(["git", "-C", checkout, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False)
        unseen = {n for n in listed if all(n not in results for results in runs.values())} if arguments.k else set()
        with open(LIST, "w", encoding="ascii") as f:
            f.write(HEADER.format(commit=commit.stdout.strip() or "unknown"))
            f.writelines(f"{name}\n" for name in sorted(passing | unseen))
        listed = read_list()
    return 1 if compare(listed, runs, bool(arguments.k)) else 0


if __name__ == "__main__":
    sys.exit(main())
