"""The pytest plugin of s3_tests.py: a fresh bucket prefix for each test, no test that sleeps, one line of JSON a result, and
the two checksums for which the SDK wants a package of machine code (which would replace its signer as well).
A bucket that one test could not remove must not fail the set-up of every later one."""
import inspect
import json
import os
import re
import sys

import botocore.httpchecksum
import pytest

import wire

SLEEP_MAX_S = 10


class Crc32c(botocore.httpchecksum.BaseChecksum):
    crc, size = staticmethod(wire.crc32c), 4

    def __init__(self):
        self.data = bytearray()

    def update(self, chunk):
        self.data += chunk

    def digest(self):
        return self.crc(bytes(self.data)).to_bytes(self.size, "big")


class Crc64nvme(Crc32c):
    crc, size = staticmethod(wire.crc64nvme), 8


ADDED = {"crc32c": Crc32c, "crc64nvme": Crc64nvme}
botocore.httpchecksum._CHECKSUM_CLS.update(ADDED)
botocore.httpchecksum._SUPPORTED_CHECKSUM_ALGORITHMS = list(botocore.httpchecksum._CHECKSUM_CLS)
botocore.httpchecksum._ALGORITHMS_PRIORITY_LIST = [*ADDED, *(
    n for n in botocore.httpchecksum._ALGORITHMS_PRIORITY_LIST if n not in ADDED)]


def identity(nodeid):
    return nodeid.rsplit("/", 1)[-1]


def sleeps(item):
    """Whether a test waits for a debug day (an expression) or longer than SLEEP_MAX_S."""
    try:
        text = inspect.getsource(item.function)
    except (OSError, TypeError):
        return False
    waits = [w.strip() for w in re.findall(r"time\.sleep\(([^)]*)", text)]
    return any(not w.isdigit() or int(w) > SLEEP_MAX_S for w in waits)


def looks_at_everything(item):
    """Tests that compare the list of all buckets, or account-wide state, run when nothing else does."""
    return re.search(r"buckets_create_then_list|list_buckets_|account_usage|bucket_usage", item.name) is not None


def pytest_collection_modifyitems(config, items):
    alone = os.environ["HAYLOFT_S3TESTS_ALONE"] == "1"
    kept = [i for i in items if not sleeps(i) and looks_at_everything(i) == alone]
    config.hook.pytest_deselected(items=[i for i in items if i not in kept])
    items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    suite = sys.modules.get("s3tests.functional")
    if suite is not None and suite.prefix:
        suite.prefix = suite.choose_bucket_prefix("conf-{random}-")


def pytest_runtest_logreport(report):
    if "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.passed):
        return
    why = report.longrepr or ""
    if isinstance(why, tuple):
        why = why[2]
    crash = getattr(why, "reprcrash", None)
    line = {"id": identity(report.nodeid), "when": report.when, "outcome": report.outcome, "seconds": round(report.duration, 2),
            "why": " ".join(str(crash.message if crash else why).split())[:300]}
    with open(os.environ["HAYLOFT_S3TESTS_REPORT"], "a", encoding="utf-8") as f:
        f.write(json.dumps(line) + "\n")
