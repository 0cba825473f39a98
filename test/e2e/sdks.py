"""Programming libraries: boto3, AWS SDK for JavaScript 3, minio-go 7, object_store of Rust. The programs and the files that pin
their packages are in js/, go/ and rust/; they are fetched and built in build-test/e2e/."""
import concurrent.futures
import io
import os
import re
import shutil
import sys
import threading

import s3lib
import suite
import venv_packages
from suite import BUILDING, Skip, case, check, program, python_packages, run


# ---- boto3 ----

def boto3_client(env, **more):
    python_packages("boto3")
    if venv_packages.site() not in sys.path:
        sys.path.insert(0, venv_packages.site())
    import boto3
    from botocore.config import Config
    with BUILDING:  # making a session is not safe from several threads
        session = boto3.session.Session(s3lib.KEY, s3lib.SECRET, region_name=s3lib.REGION)
        return session.client("s3", endpoint_url=env.url, verify=env.ca if env.store.tls else None,
                              config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2},
                                            max_pool_connections=32, **more))


class Pipe(io.RawIOBase):
    """Bytes that can be read once, without a length."""

    def __init__(self, body):
        self.body = io.BytesIO(body)

    def readable(self):
        return True

    def seekable(self):
        return False

    def readinto(self, buffer):
        return self.body.readinto(buffer)


@case(https=True)
def boto3_everyday(env):
    """Default checksums: a header over HTTP, a trailer of an unsigned chunked body over HTTPS."""
    from_env = {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
    os.environ.update(from_env)
    client, bucket = boto3_client(env), env.bucket
    for size in (0, 1, 4096, 32_769, 5_000_000):
        body = s3lib.describe("k", "boto3", size, size)[:size]
        client.put_object(Bucket=bucket, Key=f"dir/{size} +é", Body=body, Metadata={"a": "b c"}, ContentType="text/x")
        got = client.get_object(Bucket=bucket, Key=f"dir/{size} +é")
        check(got["Body"].read() == body, f"{size} bytes came back otherwise")
        check(got["Metadata"] == {"a": "b c"} and got["ContentType"] == "text/x", f"metadata are {got['Metadata']}")
        check(got.get("ChecksumCRC32"), "the checksum that boto3 sent is not stored")
    large = s3lib.describe("k", "boto3", 1, 30 << 20)
    client.upload_fileobj(Pipe(large), bucket, "large")
    back = io.BytesIO()
    client.download_fileobj(bucket, "large", back)
    check(back.getvalue() == large, "a large upload from a pipe came back otherwise")
    client.copy({"Bucket": bucket, "Key": "large"}, bucket, "copy")
    check(client.head_object(Bucket=bucket, Key="copy")["ContentLength"] == len(large), "the copy has another length")
    keys = [o["Key"] for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={
        "PageSize": 3}) for o in page.get("Contents", [])]
    check(keys == sorted(keys) and len(keys) == 7, f"the listing gave {keys}")
    gone = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in keys]})
    check(len(gone["Deleted"]) == 7 and "Errors" not in gone, f"DeleteObjects answered {gone}")
    try:
        client.head_object(Bucket=bucket, Key="large")
        raise AssertionError("a deleted object is there")
    except client.exceptions.ClientError as error:
        check(error.response["ResponseMetadata"]["HTTPStatusCode"] == 404, f"HEAD answered {error}")


@case(https=True)
def boto3_without_checksums(env):
    """The way out that people set for older stores."""
    client = boto3_client(env, request_checksum_calculation="when_required", response_checksum_validation="when_required")
    client.put_object(Bucket=env.bucket, Key="k", Body=b"plain")
    check(client.get_object(Bucket=env.bucket, Key="k")["Body"].read() == b"plain", "other bytes came back")


@case()
def boto3_race_for_a_name(env):
    """50 clients want to create one key; one does."""
    client = boto3_client(env)

    def one(i):
        try:
            client.put_object(Bucket=env.bucket, Key="lock", Body=f"{i}", IfNoneMatch="*")
            return i
        except client.exceptions.ClientError as error:
            check(error.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict"), str(error))
            return None

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        winners = [i for i in pool.map(one, range(50)) if i is not None]
    body = client.get_object(Bucket=env.bucket, Key="lock")["Body"].read()
    check(len(winners) == 1 and body == str(winners[0]).encode(), f"winners {winners}, the object says {body!r}")


@case()
def boto3_counter(env):
    """Eight clients count with If-Match; the counter equals the successes."""
    client = boto3_client(env)
    client.put_object(Bucket=env.bucket, Key="counter", Body=b"0")

    def count(_):
        done = 0
        for _ in range(25):
            got = client.get_object(Bucket=env.bucket, Key="counter")
            try:
                client.put_object(Bucket=env.bucket, Key="counter", Body=b"%d" % (int(got["Body"].read()) + 1),
                                  IfMatch=got["ETag"])
                done += 1
            except client.exceptions.ClientError as error:
                check(error.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict"), str(error))
        return done

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        successes = sum(pool.map(count, range(8)))
    value = int(client.get_object(Bucket=env.bucket, Key="counter")["Body"].read())
    check(value == successes > 0, f"the counter is {value} after {successes} successes")
    return f"{successes} of 200 attempts won"


@case()
def readers_of_an_overwritten_object(env):
    """Readers of a 100 MiB object that is overwritten see one whole body, or an error."""
    size, stop, seen, broken = 100 << 20, threading.Event(), set(), []

    def reader():
        client = s3lib.Client(env.store)
        while not stop.is_set():
            try:
                answer = client.get(env.bucket, "big")
            except (OSError, s3lib.http.client.HTTPException):
                continue
            if answer.status == 200:
                body = answer.body
                first = body[:1]
                if len(body) != size or body.count(first) != size:
                    broken.append(f"{len(body)} bytes, {body.count(first)} of the first kind")
                seen.add(first)

    client = s3lib.Client(env.store)
    check(client.put(env.bucket, "big", b"0" * size).status == 200, "the first PUT failed")
    threads = [threading.Thread(target=reader, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(1, 6):
        answer = client.put(env.bucket, "big", b"%d" % i * size, payload_hash="UNSIGNED-PAYLOAD")
        check(answer.status == 200, f"PUT answered {answer.status} {answer.body[:200]!r}")
    stop.set()
    for thread in threads:
        thread.join(60)
    check(not broken, f"mixed bodies: {broken[:3]}")
    check(len(seen) > 1, f"the readers saw only {seen}")


# ---- programs ----

def folder(name):
    """A copy of test/e2e/NAME in the build directory, where its packages are fetched."""
    to = os.path.join(suite.BUILD, name)
    shutil.copytree(os.path.join(suite.HERE, name), to, dirs_exist_ok=True)
    return to


def fetched(what, command, cwd, env):
    """Fetches packages; a machine without a registry skips the case."""
    try:
        run(command, cwd=cwd, env=env, timeout=600)
    except AssertionError as why:
        raise Skip(f"packages of {what} cannot be fetched: {str(why)[-200:]}") from None


def environment(**more):
    """For package managers: the user's own settings."""
    return {**os.environ, **more}


@case(https=True)
def javascript_sdk(env):
    node = program("node", "nodejs npm")
    program("npm", "npm")
    version = int(re.match(r"v(\d+)", run([node, "--version"])).group(1))
    if version < 20:
        raise Skip(f"the SDK needs node 20, this is {version}")
    with BUILDING:
        to = folder("js")
        if not os.path.isdir(f"{to}/node_modules/@aws-sdk/lib-storage"):
            fetched("JavaScript", ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], to, environment())
    check("done" in run([node, f"{to}/main.mjs", env.url, env.bucket], env=env.environ()), "the program did not finish")


@case(https=True)
def go_minio(env):
    go = program("go", "golang-go")
    version = tuple(map(int, re.search(r"go(\d+)\.(\d+)", run([go, "version"])).groups()))
    if version < (1, 23):
        raise Skip(f"minio-go needs Go 1.23, this is {version[0]}.{version[1]}")
    with BUILDING:
        to = folder("go")
        # A module below ours would not be found by a test that lists packages: the folder stands for itself.
        settings = environment(GOFLAGS="-mod=readonly", GOTOOLCHAIN="local", GOWORK="off")
        fetched("Go", [go, "mod", "download"], to, settings)
        run([go, "build", "-o", f"{to}/e2e", "."], cwd=to, env=settings, timeout=600)
    check("done" in run([f"{to}/e2e", env.url, env.bucket], env=env.environ()), "the program did not finish")


@case(long_only=True)
def rust_object_store(env):
    """The lock file has a word in the place of the registry's name; cargo's own is put there."""
    cargo = program("cargo", "cargo")
    with BUILDING:
        to = folder("rust")
        os.replace(f"{to}/Cargo.lock.in", f"{to}/pinned")
        if os.path.exists(f"{to}/Cargo.lock"):
            os.unlink(f"{to}/Cargo.lock")
        fetched("Rust", [cargo, "generate-lockfile"], to, environment())
        with open(f"{to}/Cargo.lock", encoding="ascii") as f:
            source = re.search(r'^source = "(.*)"$', f.read(), re.M).group(1)
        with open(f"{to}/pinned", encoding="ascii") as f, open(f"{to}/Cargo.lock", "w", encoding="ascii") as lock:
            lock.write(f.read().replace("@REGISTRY@", source))
        fetched("Rust", [cargo, "fetch", "--locked"], to, environment())
        run([cargo, "build", "--locked", "--offline"], cwd=to, env=environment(), timeout=1800)
    check("done" in run([f"{to}/target/debug/hayloft-e2e", env.url, env.bucket], env=env.environ()),
          "the program did not finish")
