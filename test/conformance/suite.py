"""The frame of the conformance cases: what a case is, what it may use, and how cases run.

A case is a function of one argument, decorated with @case(SOURCE): SOURCE names the page, RFC section or report number
that the expectation comes from ("API x" is the page of operation x in the Amazon S3 API Reference, "B12" a report in the
list of client reports, "s3-tests x" a test of ceph's suite, "AWS measured" what others measured). The argument is a Case:
buckets of its own, clients for every account, and checks that say what was seen.
"""
import concurrent.futures
import itertools
import random
import re
import threading
import time
import traceback
import zlib

import boto3
import botocore.client
import botocore.exceptions

import s3lib
import wire

CASES = []
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


def case(source, alone=False):
    """alone: runs when no other case does (it needs the processors or looks at the whole store)."""
    def add(function):
        CASES.append((function, source, alone))
        return function
    return add


class Failure(Exception):
    pass


class Account:
    def __init__(self, name, key, secret):
        self.name, self.key, self.secret = name, key, secret


def make_accounts(store):
    """Access keys of every kind, by the command line as an operator would make them."""
    accounts = {"main": Account("main", s3lib.KEY, s3lib.SECRET)}

    def create(role, *options):
        text = store.cli("key", "create", "conf " + role, *options).stdout
        accounts[role] = Account("conf " + role, re.search(r"Key ID:\s*(\S+)", text).group(1),
                                 re.search(r"Secret key:\s*(\S+)", text).group(1))

    for role in ("reader", "writer", "owner", "nothing", "creator", "other"):
        create(role)
    create("expired", "--expires-in", "1s")
    accounts["expired_at"] = time.monotonic() + 1.1
    for role in ("main", "creator", "other"):
        store.cli("key", "allow", accounts[role].key, "--create-bucket")
    return accounts


class Suite:
    def __init__(self, store):
        self.store = store
        self.accounts = make_accounts(store)
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.boto = {}

    def client(self, role="main", **options):
        """A boto3 client, shared: they are safe for threads."""
        name = (role, *sorted(options.items()))
        with self.lock:
            if name not in self.boto:
                account = self.accounts[role]
                region = options.pop("region", "us-east-1")
                config = {"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"},
                          "max_pool_connections": 64, "connect_timeout": 10, "read_timeout": 120, **options}
                self.boto[name] = boto3.client(
                    "s3", endpoint_url=self.store.url, region_name=region, aws_access_key_id=account.key,
                    aws_secret_access_key=account.secret, config=botocore.client.Config(**config),
                    verify=f"{self.store.dir}/tls.crt" if self.store.tls else None)
            return self.boto[name]


class Case:
    """One run of a case."""

    def __init__(self, suite, name):
        self.suite, self.store, self.name = suite, suite.store, name
        self.random = random.Random(zlib.crc32(name.encode()))
        self.http = s3lib.Client(self.store)
        self.s3 = suite.client()
        self.open = [self.http]

    # what it has

    def account(self, role):
        return self.suite.accounts[role]

    def boto(self, role="main", **options):
        return self.suite.client(role, **options)

    def as_(self, role):
        account = self.account(role)
        client = s3lib.Client(self.store, account.key, account.secret)
        self.open.append(client)
        return client

    def name_bucket(self):
        return f"conf-{next(self.suite.numbers):04d}-{self.name.replace('_', '-')[:40].strip('-')}"

    def bucket(self, role="main"):
        """A new bucket of its own."""
        name = self.name_bucket()
        answer = self.as_(role).request("PUT", name)
        self.equal(answer.status, 200, f"CreateBucket {name}")
        return name

    def allow(self, bucket, role, *rights):
        self.store.cli("bucket", "allow", bucket, "--key", self.account(role).key, *(f"--{r}" for r in rights))

    def wire(self, **options):
        connection = wire.Wire(self.store, **options)
        self.open.append(connection)
        return connection

    def bytes(self, size):
        return self.random.randbytes(size)

    def done(self):
        for client in self.open:
            client.close()

    # what it checks

    def true(self, condition, text):
        if not condition:
            raise Failure(text)

    def equal(self, seen, wanted, what=""):
        if seen != wanted:
            raise Failure(f"{said(what)}{short(seen)} instead of {short(wanted)}")

    def answer(self, answer, status, code=None, what=""):
        """A raw answer's status and, of an error, its S3 code."""
        if answer.status != status or (code is not None and answer.code != code):
            wanted = f"{status} {code or ''}".strip()
            raise Failure(f"{said(what)}{answer.status} {answer.code or ''} instead of {wanted}; "
                          f"{answer.body[:300]!r}")
        return answer

    def fails(self, status, code, function, *arguments, **named):
        """A boto3 call that must fail with exactly this."""
        try:
            seen = function(*arguments, **named)
        except botocore.exceptions.ClientError as e:
            seen = (e.response["ResponseMetadata"]["HTTPStatusCode"], e.response["Error"]["Code"])
            codes = code if isinstance(code, tuple) else (code,)
            if seen[0] != status or (code is not None and seen[1] not in codes):
                raise Failure(f"{seen} instead of {(status, code)}: {e}") from None
            return e.response
        raise Failure(f"no error instead of {(status, code)}: {short(seen)}")


def said(what):
    return "" if what == "" else f"{what!s:.200}: "


def short(value):
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:200]}...{text[-150:]} ({len(text)} characters)"


def run_one(suite, function):
    """None, or why it failed."""
    run = Case(suite, function.__name__)
    try:
        function(run)
        return None
    except Failure as e:
        where = traceback.extract_tb(e.__traceback__)
        line = next((f.lineno for f in reversed(where) if f.name == function.__name__), 0)
        return f"{' '.join(str(e).split())} (line {line})"
    except Exception as e:  # noqa: BLE001: anything is a failed case, never a failed run
        where = traceback.extract_tb(e.__traceback__)
        line = next((f.lineno for f in reversed(where) if f.name == function.__name__), 0)
        return f"{type(e).__name__}: {' '.join(str(e).split())[:500]} (line {line})"
    finally:
        run.done()


def run_all(store, chosen, threads, report):
    """Runs cases; report(name, why) for each as it ends."""
    suite = Suite(store)
    together = [f for f, _, alone in chosen if not alone]
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for function, why in pool.map(lambda f: (f, run_one(suite, f)), together):
            report(function.__name__, why)
    for function, _, alone in chosen:
        if alone:
            report(function.__name__, run_one(suite, function))
