#!/usr/bin/env python3
"""Real clients against the real server, every command of the program, and the promised limits. Prints a line a case: ok, not
ok, or skip with its reason.

    test/e2e/run.py                     what CI runs
    test/e2e/run.py --only REGEX        cases whose name matches (client_aws_cp, cli_..., limit_...)
    test/e2e/run.py --long              also slow cases, larger data, and clients whose packages are large: it installs
                                        docker-registry, duplicity and python3-boto3 from Debian and builds the Rust client
    test/e2e/run.py --list

Clients from the registries of Python, JavaScript, Go and Rust are pinned (test/venv_packages.py, js/, go/, rust/ here) and
fetched into build-test/.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import s3lib  # noqa: E402
import suite  # noqa: E402
import clients  # noqa: E402,F401  importing registers the cases
import sdks  # noqa: E402,F401
import cli  # noqa: E402,F401
import bad_input  # noqa: E402,F401
import disk_full  # noqa: E402,F401
import limits  # noqa: E402,F401

PREFIX = {"clients": "client_", "cli": "cli_", "limits": "limit_"}


def chosen(arguments, group):
    """(name, function, over TLS) of a group."""
    for function, https, its_group, long_only in suite.CASES:
        if its_group != group or (long_only and not arguments.long):
            continue
        for tls in (False, True) if https else (False,):
            name = PREFIX[group] + function.__name__ + ("_https" if tls else "")
            if re.search(arguments.only, name):
                yield name, function, tls


def run_clients(arguments, report):
    cases = list(chosen(arguments, "clients"))
    if not cases:
        return
    work = tempfile.mkdtemp(prefix="hayloft-e2e-", dir=os.environ.get("HAYLOFT_TEST_TMP"))
    stores = {tls: s3lib.Store(tls=tls).start() for tls in {tls for _, _, tls in cases}}

    def one(name, function, tls):
        report.one(name, lambda: function(suite.Env(stores[tls], function.__name__, work, arguments.long)))

    try:
        with concurrent.futures.ThreadPoolExecutor(arguments.threads) as pool:
            list(pool.map(lambda c: one(*c), cases))
        for tls, store in stores.items():
            name = "client_store_ends_in_order" + ("_https" if tls else "")
            report.one(name, lambda store=store: suite.check(store.stop() == 0, store.log_tail()))
    finally:
        for store in stores.values():
            if arguments.keep:
                print(f"kept: {store.dir}, {work}")
                store.stop()
            else:
                store.close()
        if not arguments.keep:
            shutil.rmtree(work, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave the store and the files of clients behind")
    parser.add_argument("--threads", type=int, default=2, help="clients at a time")
    arguments = parser.parse_args()
    if arguments.list:
        arguments.long = True
        print("\n".join(name for group in PREFIX for name, _, _ in chosen(arguments, group)))
        return 0
    report = suite.Report()
    run_clients(arguments, report)
    for group in ("cli", "limits"):
        for name, function, _ in chosen(arguments, group):
            report.one(name, function, arguments.long) if group == "limits" else report.one(name, function)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
