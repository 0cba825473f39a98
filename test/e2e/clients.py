"""Programs that people use with S3, each in a bucket of its own: aws, rclone, s3cmd, restic, s3fs, curl, docker-registry,
duplicity. What a client wrote is read back by the same client and compared byte by byte with what was there."""
import hashlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.parse

import s3lib
import venv_packages
from suite import Skip, case, check, copy_tree, debian_install, program, python_packages, random_file, run, same_tree, sha256

MIB = 1 << 20


# ---- aws ----

def aws_runner(env, path):
    environ = env.environ()

    def aws(*arguments, code=0, data=None):
        return run([path, "--endpoint-url", env.url, *arguments], env=environ, cwd=env.dir, code=code, data=data)
    return aws


def aws_v1(env):
    python_packages("boto3", "awscli")
    return aws_runner(env, venv_packages.program("aws"))


def aws_v2(env):
    for path in ("/usr/bin/aws", "/usr/local/bin/aws"):
        if os.path.exists(path) and "aws-cli/2" in run([path, "--version"], env=env.environ()):
            return aws_runner(env, path)
    raise Skip("aws-cli 2 is not installed (Debian's awscli package has it)")


def aws_everyday(env, aws):
    """cp of a small and a large file, through a pipe, ls, mv, rm."""
    big, bucket = random_file(f"{env.dir}/big", 64 * MIB), f"s3://{env.bucket}"
    small = random_file(f"{env.dir}/small file+1", 4096)
    aws("s3", "cp", small, f"{bucket}/folder/small file+1")
    aws("s3", "cp", big, f"{bucket}/big")
    listing = aws("s3", "ls", "--recursive", bucket)
    check("4096 folder/small file+1" in listing and f"{64 * MIB} big" in listing, f"ls printed {listing!r}")
    check("PRE folder/" in aws("s3", "ls", f"{bucket}/"), "ls shows no folder")
    aws("s3", "cp", f"{bucket}/big", f"{env.dir}/big.back")
    check(sha256(big) == sha256(f"{env.dir}/big.back"), "other bytes came back")
    etag = json.loads(aws("s3api", "head-object", "--bucket", env.bucket, "--key", "big"))["ETag"]
    check(etag.strip('"').endswith("-8"), f"64 MiB in 8 parts has the ETag {etag}")
    aws("s3", "cp", "-", f"{bucket}/pipe", data=b"through a pipe")
    check(aws("s3", "cp", f"{bucket}/pipe", "-") == "through a pipe", "the pipe's bytes differ")
    aws("s3", "mv", f"{bucket}/big", f"{bucket}/moved/big")  # a copy of parts on the server
    check("404" in aws("s3api", "head-object", "--bucket", env.bucket, "--key", "big", code=None), "mv left the source")
    aws("s3", "cp", f"{bucket}/moved/big", f"{env.dir}/big.back")
    check(sha256(big) == sha256(f"{env.dir}/big.back"), "mv changed the bytes")
    aws("s3", "rm", "--recursive", bucket)
    check(aws("s3", "ls", "--recursive", bucket, code=None).strip() == "", "rm --recursive left something")


def aws_buckets(env, aws):
    name = env.bucket[:50] + "-made"
    aws("s3", "mb", f"s3://{name}")
    check(name in aws("s3", "ls"), "mb made no bucket")
    aws("s3", "cp", random_file(f"{env.dir}/x", 100), f"s3://{name}/x")
    check("BucketNotEmpty" in aws("s3", "rb", f"s3://{name}", code=None), "rb took a bucket with an object")
    aws("s3", "rb", "--force", f"s3://{name}")
    check(name not in aws("s3", "ls"), "rb left the bucket")


def aws_synced(env, aws, files):
    tree, bucket = copy_tree(f"{env.dir}/tree", files), f"s3://{env.bucket}/tree"
    aws("s3", "sync", "--only-show-errors", tree, bucket)
    check(aws("s3", "sync", "--dryrun", tree, bucket).strip() == "", "a second sync finds work")
    aws("s3", "sync", "--only-show-errors", bucket, f"{env.dir}/back")
    same_tree(tree, f"{env.dir}/back")
    shutil.rmtree(f"{tree}/Photos 2026")
    random_file(f"{tree}/new", 9 * MIB)
    aws("s3", "sync", "--only-show-errors", "--delete", tree, bucket)
    aws("s3", "sync", "--only-show-errors", "--delete", bucket, f"{env.dir}/back")
    os.rmdir(f"{env.dir}/back/Photos 2026")  # aws deletes files, and leaves their folder
    same_tree(tree, f"{env.dir}/back")


def aws_conditional(env, aws):
    body = random_file(f"{env.dir}/one", 1000)
    put = ("s3api", "put-object", "--bucket", env.bucket, "--key", "once", "--body", body, "--if-none-match", "*")
    aws(*put)
    check("PreconditionFailed" in aws(*put, code=None), "the second put-object --if-none-match '*' was let through")


def fetch(env, url, method="GET", body=None):
    """A request with nothing but the URL, as a browser or curl would send it."""
    parts = urllib.parse.urlsplit(url)
    client = s3lib.Client(env.store)
    connection = client.connect()
    connection.request(method, f"{parts.path}?{parts.query}", body=body, headers={"Host": parts.netloc})
    answer = connection.getresponse()
    text = answer.read()
    client.close()
    return answer.status, text


def aws_presigned(env, aws):
    aws("s3", "cp", random_file(f"{env.dir}/p", 5000), f"s3://{env.bucket}/a folder/p")
    url = aws("s3", "presign", f"s3://{env.bucket}/a folder/p", "--expires-in", "60").strip()
    status, body = fetch(env, url)
    with open(f"{env.dir}/p", "rb") as f:
        check(status == 200 and body == f.read(), f"the presigned URL {url} answered {status} {body[:300]!r}")
    status, body = fetch(env, url.replace("/p?", "/q?"))
    check(status == 403, f"a presigned URL for another key answered {status}")


@case(https=True)
def aws_v1_everyday(env):
    aws = aws_v1(env)
    aws_everyday(env, aws)
    aws_buckets(env, aws)


@case(https=True)
def aws_v1_sync(env):
    aws_synced(env, aws_v1(env), 300)


@case(https=True)
def aws_v1_presign_conditional(env):
    aws = aws_v1(env)
    aws_presigned(env, aws)
    aws_conditional(env, aws)


@case()
def aws_v1_region_of_garage(env):
    """Guides for Garage set the region to "garage"; the same keys must work."""
    aws_v1(env)
    environ = env.environ(AWS_DEFAULT_REGION="garage", AWS_REGION="garage", AWS_ENDPOINT_URL=env.url)
    path = venv_packages.program("aws")
    run([path, "s3", "mb", f"s3://{env.bucket}-garage"], env=environ)
    run([path, "s3", "cp", random_file(f"{env.dir}/x", 4096), f"s3://{env.bucket}-garage/"], env=environ)
    url = run([path, "s3", "presign", f"s3://{env.bucket}-garage/x"], env=environ).strip()
    check("X-Amz-Signature" in url, "with this region aws signs URLs by version 4")
    status, body = fetch(env, url)
    check(status == 200 and len(body) == 4096, f"the presigned URL answered {status}")


@case(https=True)
def aws_v2_all(env):
    aws = aws_v2(env)
    aws_everyday(env, aws)
    aws_buckets(env, aws)
    aws_synced(env, aws, 150)
    aws_presigned(env, aws)  # aws 2.9 does not know --if-none-match of put-object


# ---- rclone ----

@case(https=True)
def rclone_streams(env):
    """One large file in four streams each way, then a check that downloads and compares."""
    path = program("rclone")
    size = (1024 if env.long else 128) * MIB
    environ = env.environ(AWS_CA_BUNDLE="", RCLONE_CONFIG="/dev/null", RCLONE_CONFIG_HAY_TYPE="s3", RCLONE_CONFIG_HAY_PROVIDER="Other",
                          RCLONE_CONFIG_HAY_ENDPOINT=env.url, RCLONE_CONFIG_HAY_REGION="us-east-1",
                          RCLONE_CONFIG_HAY_ACCESS_KEY_ID=s3lib.KEY, RCLONE_CONFIG_HAY_SECRET_ACCESS_KEY=s3lib.SECRET)
    base = [path, "--retries", "1", *(["--ca-cert", env.ca] if env.store.tls else [])]
    tree = copy_tree(f"{env.dir}/tree", 150)
    random_file(f"{tree}/video.mkv", size)
    begin = time.monotonic()
    run([*base, "copy", tree, f"hay:{env.bucket}/t", "--transfers", "4", "--checkers", "4", "--s3-upload-concurrency", "4"],
        env=environ, timeout=600)
    up = time.monotonic() - begin
    run([*base, "check", "--download", tree, f"hay:{env.bucket}/t"], env=environ, timeout=600)
    begin = time.monotonic()
    run([*base, "copy", f"hay:{env.bucket}/t", f"{env.dir}/back", "--transfers", "4", "--checkers", "4",
         "--multi-thread-streams", "4", "--multi-thread-cutoff", "16M"], env=environ, timeout=600)
    down = time.monotonic() - begin
    same_tree(tree, f"{env.dir}/back")
    os.utime(f"{tree}/video.mkv", (1_000_000_000, 1_000_000_000))  # rclone keeps the time by a copy onto itself
    run([*base, "sync", tree, f"hay:{env.bucket}/t"], env=environ, timeout=600)
    listing = json.loads(run([*base, "lsjson", f"hay:{env.bucket}/t/video.mkv"], env=environ))
    check(listing[0]["ModTime"].startswith("2001-09-09"), f"the time of the file is {listing[0]['ModTime']}")
    run([*base, "purge", f"hay:{env.bucket}/t"], env=environ)
    return f"{size // MIB} MiB up {size / MIB / up:.0f} MiB/s, down {size / MIB / down:.0f} MiB/s, with 150 small files"


# ---- s3cmd ----

@case(https=True)
def s3cmd_all(env):
    path = program("s3cmd")
    with open(f"{env.dir}/s3cfg", "w", encoding="ascii") as f:
        f.write(f"[default]\naccess_key = {s3lib.KEY}\nsecret_key = {s3lib.SECRET}\nbucket_location = us-east-1\n"
                f"host_base = localhost:{env.store.port}\nhost_bucket = localhost:{env.store.port}\n"
                f"use_https = {env.store.tls}\nca_certs_file = {env.ca if env.store.tls else ''}\n"
                "signature_v2 = False\nmultipart_chunk_size_mb = 5\n")

    def s3cmd(*arguments):
        return run([path, "-c", f"{env.dir}/s3cfg", "--no-progress", *arguments], env=env.environ())

    tree, bucket = copy_tree(f"{env.dir}/tree", 90), f"s3://{env.bucket}"
    big = random_file(f"{env.dir}/big", 17 * MIB)
    s3cmd("put", big, f"{bucket}/big")  # four parts
    check(str(17 * MIB) in s3cmd("ls", f"{bucket}/big"), "ls does not show the size")
    s3cmd("get", f"{bucket}/big", f"{env.dir}/big.back")
    check(sha256(big) == sha256(f"{env.dir}/big.back"), "other bytes came back")
    s3cmd("sync", f"{tree}/", f"{bucket}/t/")
    s3cmd("sync", f"{bucket}/t/", f"{env.dir}/back/")
    same_tree(tree, f"{env.dir}/back")
    check("File size" in s3cmd("info", f"{bucket}/big"), "info shows no size")
    s3cmd("cp", f"{bucket}/big", f"{bucket}/big2")
    s3cmd("del", "--recursive", "--force", bucket)
    check(s3cmd("ls", bucket).strip() == "", "del --recursive left something")
    s3cmd("mb", f"{bucket}-2")
    s3cmd("rb", f"{bucket}-2")


# ---- restic ----

@case(https=True)
def restic_all(env):
    """A repository: back a real tree up twice, check all data, restore, compare, forget and prune."""
    path = program("restic")
    environ = env.environ(RESTIC_PASSWORD="hay", RESTIC_REPOSITORY=f"s3:{env.url}/{env.bucket}/repo",
                          RESTIC_CACHE_DIR=f"{env.dir}/cache")
    more = ["--cacert", env.ca] if env.store.tls else []

    def restic(*arguments):
        return run([path, *more, "-q", *arguments], env=environ, timeout=600)

    tree = f"{env.dir}/tree"
    sources = ["/usr/include"] if env.long else ["/usr/include/linux", "/usr/include/openssl"]
    for source in sources:
        if os.path.isdir(source):
            shutil.copytree(source, f"{tree}{source}", symlinks=True)
    random_file(f"{tree}/video", 40 * MIB)
    copy_tree(f"{tree}/docs", 60)
    restic("init")
    restic("backup", tree)
    shutil.rmtree(f"{tree}/docs")
    random_file(f"{tree}/video", 20 * MIB, 1)
    restic("backup", tree)
    restic("check", "--read-data")
    restic("restore", "latest", "--target", f"{env.dir}/back")
    run(["diff", "-r", "--no-dereference", tree, f"{env.dir}/back{tree}"])
    restic("forget", "--keep-last", "1", "--prune")
    restic("check", "--read-data")
    snapshots = json.loads(run([path, *more, "snapshots", "--json"], env=environ))
    check(len(snapshots) == 1, f"{len(snapshots)} snapshots are left of 2")


# ---- s3fs ----

@case(https=True)
def s3fs_mount(env):
    """Mounts the bucket, copies a tree, renames, appends, overwrites in the middle, and compares after mounting again."""
    path = program("s3fs")
    if not os.path.exists("/dev/fuse"):
        raise Skip("there is no /dev/fuse on this machine")
    if os.geteuid() != 0 and shutil.which("fusermount") is None:
        raise Skip("mounting needs root or fusermount")
    mount, password = f"{env.dir}/mnt", f"{env.dir}/passwd"
    os.mkdir(mount)
    with open(password, "w", opener=lambda p, f: os.open(p, f, 0o600), encoding="ascii") as f:
        f.write(f"{s3lib.KEY}:{s3lib.SECRET}\n")
    options = f"url={env.url},use_path_request_style,passwd_file={password},endpoint=us-east-1,sigv4,max_stat_cache_size=0"
    environ = env.environ(CURL_CA_BUNDLE=env.ca if env.store.tls else "")

    def mounted():
        with open(f"{env.dir}/s3fs.log", "ab") as log:
            process = subprocess.Popen([path, env.bucket, mount, "-f", "-o", options], env=environ, stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while not os.path.ismount(mount):
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                with open(f"{env.dir}/s3fs.log", encoding="utf-8", errors="replace") as log:
                    text = log.read()
                if "fuse: mount failed" in text or "Operation not permitted" in text:
                    raise Skip("mounting is not permitted on this machine")
                raise AssertionError(f"s3fs did not mount: {text[-600:]}")
            time.sleep(0.05)
        return process

    def unmount(process):
        run(["fusermount" if shutil.which("fusermount") else "umount", *(["-u"] if shutil.which("fusermount") else []),
             mount])
        process.wait(60)

    tree = copy_tree(f"{env.dir}/tree", 60)
    random_file(f"{tree}/movie", 30 * MIB)
    process = mounted()
    try:
        run(["cp", "-r", tree, f"{mount}/t"], timeout=400)
        same_tree(tree, f"{mount}/t")
        for base in (tree, f"{mount}/t"):
            os.rename(f"{base}/movie", f"{base}/film")
            with open(f"{base}/film", "r+b") as f:
                f.seek(11 * MIB)
                f.write(b"another scene")
            with open(f"{base}/notes", "ab") as f:
                f.write(b"first\n")
            with open(f"{base}/notes", "ab") as f:
                f.write(b"second\n")
            os.unlink(f"{base}/Photos 2026/empty")
    finally:
        unmount(process)
    process = mounted()
    try:
        same_tree(tree, f"{mount}/t")
        shutil.rmtree(f"{mount}/t")
        check(os.listdir(mount) == [], "rm -r left something")
    finally:
        unmount(process)


# ---- curl ----

@case(https=True)
def curl_sigv4(env):
    path = program("curl")
    file, url = random_file(f"{env.dir}/f", 3 * MIB), f"{env.url}/{env.bucket}/dir/f"
    base = [path, "-sS", "--fail-with-body", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", f"{s3lib.KEY}:{s3lib.SECRET}",
            "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", *(["--cacert", env.ca] if env.store.tls else [])]
    run([*base, "-T", file, url])
    run([*base, "-o", f"{env.dir}/back", url])
    check(sha256(file) == sha256(f"{env.dir}/back"), "other bytes came back")
    check("<Key>dir/f</Key>" in run([*base, f"{env.url}/{env.bucket}?list-type=2&prefix=dir"]), "the listing lacks the key")
    run([*base, "-r", "100-199", "-o", f"{env.dir}/range", url])
    with open(file, "rb") as f:
        f.seek(100)
        check(f.read(100) == open(f"{env.dir}/range", "rb").read(), "a range differs")
    run([*base, "-X", "DELETE", url])
    check("NoSuchKey" in run([*base, url], code=22), "the object is still there")
    bare = [path, "-sS", *(["--cacert", env.ca] if env.store.tls else [])]
    check("AccessDenied" in run([*bare, url]), "an unsigned request was let through")


# ---- docker-registry ----

def registry_push_pull(env, port):
    blobs, connection = [], http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def call(method, path, body=b"", headers=None, status=200):
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        text = answer.read()
        check(answer.status == status, f"{method} {path[:80]} answered {answer.status}: {text[:300]!r}")
        return answer, text

    for seed, size in ((1, 2000), (2, 33 * MIB)):  # above 32 MiB the registry moves the blob by UploadPartCopy
        with open(random_file(f"{env.dir}/blob", size, seed), "rb") as f:
            body = f.read()
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        answer, _ = call("POST", "/v2/app/blobs/uploads/", status=202)
        place = urllib.parse.urlsplit(answer.getheader("Location"))
        half = len(body) // 2
        for begin, piece in ((0, body[:half]), (half, body[half:])):
            answer, _ = call("PATCH", f"{place.path}?{place.query}", piece,
                             {"Content-Type": "application/octet-stream", "Content-Range": f"{begin}-{begin + len(piece) - 1}"},
                             202)
            place = urllib.parse.urlsplit(answer.getheader("Location"))
        call("PUT", f"{place.path}?{place.query}&digest={urllib.parse.quote(digest)}", status=201)
        blobs.append((digest, body))
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    manifest = json.dumps({"schemaVersion": 2, "mediaType": kind,
                           "config": {"mediaType": "application/vnd.docker.container.image.v1+json",
                                      "size": len(blobs[0][1]), "digest": blobs[0][0]},
                           "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                                       "size": len(blobs[1][1]), "digest": blobs[1][0]}]}).encode()
    call("PUT", "/v2/app/manifests/latest", manifest, {"Content-Type": kind}, 201)
    check(call("GET", "/v2/app/manifests/latest", headers={"Accept": kind})[1] == manifest, "the manifest differs")
    check(json.loads(call("GET", "/v2/app/tags/list")[1])["tags"] == ["latest"], "the tag is not listed")
    check("app" in json.loads(call("GET", "/v2/_catalog")[1])["repositories"], "the catalog lacks the image")
    for digest, body in blobs:
        check(call("GET", f"/v2/app/blobs/{digest}")[1] == body, "a blob differs")
    connection.close()


@case()
def docker_registry(env):
    """Debian's registry with its S3 driver: pushes an image as docker does (blobs in two pieces, manifest), pulls it."""
    path = program("docker-registry", "docker-registry", env)
    port = s3lib.free_port()
    with open(f"{env.dir}/config.yml", "w", encoding="ascii") as f:
        f.write(f"version: 0.1\nlog: {{level: error}}\nstorage:\n  s3: {{region: us-east-1, regionendpoint: \"{env.url}\", "
                f"bucket: {env.bucket}, accesskey: {s3lib.KEY}, secretkey: {s3lib.SECRET}, secure: false, v4auth: true, "
                f"rootdirectory: /registry}}\n  redirect: {{disable: true}}\n  delete: {{enabled: true}}\n"
                f"http: {{addr: \"127.0.0.1:{port}\"}}\n")
    with open(f"{env.dir}/registry.log", "wb") as log:
        process = subprocess.Popen([path, "serve", f"{env.dir}/config.yml"], env=env.environ(), stdout=log, stderr=log,
                                   stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while True:
            try:
                http.client.HTTPConnection("127.0.0.1", port, timeout=5).request("GET", "/v2/")
                break
            except OSError:
                check(process.poll() is None and time.monotonic() < end, f"the registry did not start: "
                      f"{open(f'{env.dir}/registry.log', encoding='utf-8').read()[-500:]}")
                time.sleep(0.1)
        registry_push_pull(env, port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


# ---- duplicity ----

@case()
def duplicity_all(env):
    """Full and incremental backup, verify, restore."""
    path = program("duplicity", "duplicity", env)
    if subprocess.run(["/usr/bin/python3", "-c", "import boto3"], capture_output=True, check=False).returncode:
        if not env.long or not debian_install("python3-boto3"):
            raise Skip("duplicity's S3 needs Debian's python3-boto3 (run.py --long installs it)")
    tree = copy_tree(f"{env.dir}/tree", 120)
    base = ["--no-encryption", "--archive-dir", f"{env.dir}/cache", "--s3-endpoint-url", env.url, "--s3-region-name",
            "us-east-1"]
    target, environ = f"boto3+s3://{env.bucket}/backup", env.environ(PYTHONWARNINGS="ignore")

    def duplicity(*arguments):
        return run([path, *arguments[:-2], *base, *arguments[-2:]], env=environ)

    duplicity("full", tree, target)
    random_file(f"{tree}/later", 3 * MIB)
    shutil.rmtree(f"{tree}/Photos 2026")
    duplicity("incremental", tree, target)
    duplicity("verify", "--compare-data", target, tree)
    duplicity("restore", target, f"{env.dir}/back")
    same_tree(tree, f"{env.dir}/back")
    status = run([path, "collection-status", *base, target], env=environ)
    check("Incremental" in status, f"collection-status shows no increment: {status[-400:]}")
