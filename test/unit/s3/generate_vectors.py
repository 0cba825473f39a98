#!/usr/bin/env python3
"""Writes vectors/requests.txt: requests as real clients put them on the wire, with the verdict that
a correct server gives. botocore signs most of them with its clock held still, and curl
(--aws-sigv4) some at the time of the run. The file is committed; run this by hand to renew it:

    python3 test/unit/s3/generate_vectors.py > test/unit/s3/vectors/requests.txt

A case is a run of lines "word value" between "case" and "end"; header values are raw, a body is
hexadecimal. The store's side of the secret is in requests.c beside this file.
"""
import datetime
import io
import random
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import botocore.auth
import botocore.session
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.config import Config
from botocore.credentials import Credentials

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
NOW = datetime.datetime(2026, 12, 1, 10, 20, 30, tzinfo=datetime.timezone.utc)
NOW_S = int(NOW.timestamp())


def hold_clock():
    botocore.auth.get_current_datetime = lambda remove_tzinfo=True: (
        NOW.replace(tzinfo=None) if remove_tzinfo else NOW
    )
    botocore.auth.time = type("Clock", (), {
        "time": staticmethod(lambda: float(NOW_S)),
        "strftime": staticmethod(time.strftime),
        "gmtime": staticmethod(time.gmtime),
    })


def text(value):
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def emit(name, method, url, headers, expect="OK", body=None, decoded=None, now_s=NOW_S):
    parts = urlsplit(url)
    target = parts.path + ("?" + parts.query if parts.query else "")
    out = [f"case {name}", f"now {now_s * 1000}", f"method {method}", f"target {target}"]
    names = {n.lower() for n, _ in headers}
    if "host" not in names:
        out.append(f"header Host: {parts.netloc}")
    unsigned = ("user-agent", "amz-sdk-invocation-id", "amz-sdk-request")
    out += [f"header {n}: {text(v)}" for n, v in headers if n.lower() not in unsigned]
    out.append(f"expect {expect}")
    if body is not None:
        out.append("body " + body.hex())
        out.append("decoded " + decoded.hex())
    out.append("end")
    sys.stdout.buffer.write(("\n".join(out) + "\n").encode("latin-1"))


class Capture(Exception):
    pass


def client(endpoint="http://127.0.0.1:3900", region="us-east-1", **config):
    session = botocore.session.get_session()
    c = session.create_client(
        "s3", region_name=region, endpoint_url=endpoint, aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        config=Config(retries={"total_max_attempts": 1}, **config))
    taken = []

    def before_send(request, **_):
        taken.append(request)
        return AWSResponse(request.url, 500, {}, io.BytesIO(b""))

    c.meta.events.register("before-send.s3", before_send)
    c.taken = taken
    return c


def wire_body(request):
    body = request.body
    if body is None:
        return b""
    if hasattr(body, "read"):
        if hasattr(body, "seek"):
            body.seek(0)
        return body.read()
    return body


def run_operations():
    plain = client()
    vhost = client("http://s3.local:3900", s3={"addressing_style": "virtual"})
    frankfurt = client("http://store.example:3900", region="eu-central-1")
    https = client("https://127.0.0.1:3900")
    body = random.Random(7).randbytes(100)
    operations = [
        ("get-plain", plain, "get_object", dict(Bucket="bkt", Key="a/b.txt")),
        ("get-odd-key", plain, "get_object", dict(Bucket="bkt", Key="a b+c=d&e?f#g%h/é/~/'()*!;:@,$")),
        ("get-dots", plain, "get_object", dict(Bucket="bkt", Key="a/../b/./c//d")),
        ("get-percent", plain, "get_object", dict(Bucket="bkt", Key="foo%2Fbar%25.txt")),
        ("get-range", frankfurt, "get_object", dict(Bucket="bkt", Key="x", Range="bytes=0-9")),
        ("get-vhost", vhost, "get_object", dict(Bucket="my-bucket", Key="k")),
        ("head", plain, "head_object", dict(Bucket="bkt", Key="k")),
        ("put-header-checksum", plain, "put_object",
         dict(Bucket="bkt", Key="k", Body=body, Metadata={"Color": "  deep   blue ", "n": ""})),
        ("put-trailer", https, "put_object", dict(Bucket="bkt", Key="k", Body=body)),
        ("put-trailer-empty", https, "put_object", dict(Bucket="bkt", Key="k", Body=b"")),
        ("put-trailer-crc64", https, "put_object",
         dict(Bucket="bkt", Key="k", Body=b"123456789", ChecksumAlgorithm="SHA256")),
        ("put-trailer-stream", https, "put_object",
         dict(Bucket="bkt", Key="k", Body=random.Random(8).randbytes(9000))),
        ("upload-part", plain, "upload_part",
         dict(Bucket="bkt", Key="k", UploadId="abc-_.", PartNumber=3, Body=body)),
        ("list-v2", plain, "list_objects_v2",
         dict(Bucket="bkt", Prefix="a b/+ü", Delimiter="/", MaxKeys=7, StartAfter="ä=&")),
        ("list-buckets", plain, "list_buckets", {}),
        ("delete-objects", plain, "delete_objects",
         dict(Bucket="bkt", Delete={"Objects": [{"Key": "a&b<c>"}]})),
        ("copy", plain, "copy_object",
         dict(Bucket="bkt", Key="to", CopySource={"Bucket": "b2", "Key": "a b+c?é", "VersionId": "v"})),
    ]
    for name, c, operation, arguments in operations:
        try:
            getattr(c, operation)(**arguments)
        except Exception:  # the made-up 500
            pass
        request = c.taken.pop()
        wire = wire_body(request)
        decoded = arguments.get("Body", b"")
        has_body = operation in ("put_object", "upload_part")
        emit("boto-" + name, request.method, request.url, list(request.headers.items()),
             body=wire if has_body else None, decoded=decoded if has_body else None)


def run_presigned():
    for version, region in (("s3", "us-east-1"), ("s3v4", "us-east-1"), ("s3v4", "eu-central-1")):
        c = client("http://127.0.0.1:3900", region=region, signature_version=version)
        v = client("http://s3.local:3900", region=region, signature_version=version,
                   s3={"addressing_style": "virtual"})
        operations = [
            ("get", c, "get_object", dict(Bucket="bkt", Key="a b+ü/%.txt")),
            ("get-response", c, "get_object",
             dict(Bucket="bkt", Key="k", ResponseContentDisposition='attachment; filename="a b.txt"',
                  ResponseContentType="text/plain; charset=utf-8", VersionId="null")),
            ("put", c, "put_object", dict(Bucket="bkt", Key="k")),
            ("put-acl", c, "put_object", dict(Bucket="bkt", Key="k", ACL="public-read")),
            ("put-meta", c, "put_object",
             dict(Bucket="bkt", Key="k", ContentType="text/x", Metadata={"Color": "a  b"})),
            ("part", c, "upload_part", dict(Bucket="bkt", Key="k", UploadId="u-1", PartNumber=2)),
            ("uploads", c, "create_multipart_upload", dict(Bucket="bkt", Key="k")),
            ("list", c, "list_objects_v2", dict(Bucket="bkt", Prefix="x y")),
            ("vhost", v, "get_object", dict(Bucket="my-bucket", Key="a b")),
        ]
        for name, which, operation, arguments in operations:
            url = which.generate_presigned_url(operation, Params=arguments, ExpiresIn=600)
            method = {"get": "GET", "lis": "GET", "put": "PUT", "upl": "PUT", "cre": "POST"}[operation[:3]]
            label = f"presign-{version}-{region}-{name}"
            signed = []
            if version == "s3v4" and name == "put-acl":
                signed = [("x-amz-acl", "public-read")]
            if version == "s3v4" and name == "put-meta":
                signed = [("Content-Type", "text/x"), ("x-amz-meta-Color", "a  b")]
            emit(label, method, url, signed)
            emit(label + "-last-second", method, url, signed, now_s=NOW_S + 600)
            emit(label + "-expired", method, url, signed, "EXPIRED", now_s=NOW_S + 601)
            emit(label + "-other-method", "DELETE", url, signed, "SIGNATURE")
            other = url.replace("/bkt/", "/bkt/z").replace("/a%20b", "/za%20b")
            if other != url:
                emit(label + "-other-key", method, other, signed, "SIGNATURE")


def sign_raw(method, url, headers, region="us-east-1"):
    """Signs with botocore's S3 signer, for requests that no botocore operation makes."""
    request = AWSRequest(method=method, url=url, headers={})
    for name, value in headers:
        request.headers[name] = value  # repeated names pile up
    request.context["payload_signing_enabled"] = False
    signer = botocore.auth.S3SigV4Auth(Credentials(KEY, SECRET), "s3", region)
    signer.add_auth(request)
    return list(request.headers.items())


def run_raw():
    base = "http://127.0.0.1:3900"
    cases = [
        ("repeated-query", "GET", base + "/bkt?a=2&a=1&b&c=&A=3", []),
        ("repeated-header", "PUT", base + "/bkt/k", [("x-amz-meta-a", "1"), ("x-amz-meta-a", " 2  3 ")]),
        ("tabs", "PUT", base + "/bkt/k", [("x-amz-meta-a", "\t1 \t 2")]),
        ("ipv6", "GET", "http://[::1]:9000/bkt/k", []),
        ("raw-utf8", "GET", base + "/bkt/%C3%A9%c3%a9", []),
        ("default-port", "GET", "http://host.example/bkt/k", []),
    ]
    for name, method, url, headers in cases:
        signed = sign_raw(method, url, headers)
        expect = "OK"
        emit("raw-" + name, method, url, signed, expect)
    signed = sign_raw("GET", "http://host.example/bkt/k", [])
    emit("raw-host-port-80", "GET", "http://host.example/bkt/k",
         [("Host", "host.example:80")] + signed)
    emit("raw-host-capital", "GET", "http://host.example/bkt/k",
         [("Host", "Host.Example")] + signed)
    emit("raw-host-other", "GET", "http://host.example/bkt/k",
         [("Host", "host.example.org")] + signed, "SIGNATURE")
    signed = sign_raw("GET", base + "/bkt/k", [("Accept-Encoding", "identity")])
    changed = [(n, "gzip" if n == "Accept-Encoding" else v) for n, v in signed]
    emit("raw-accept-encoding-kept", "GET", base + "/bkt/k", signed)
    # botocore leaves accept-encoding unsigned; for one that the Go SDK signs see auth.c.
    emit("raw-accept-encoding-changed", "GET", base + "/bkt/k", changed)
    signed = sign_raw("PUT", base + "/bkt/k", [])
    emit("raw-unsigned-acl", "PUT", base + "/bkt/k", signed + [("x-amz-acl", "public-read")],
         "UNSIGNED_HEADERS")
    for minutes, expect in ((14, "OK"), (-14, "OK"), (16, "SKEWED"), (-16, "SKEWED")):
        emit(f"raw-skew{minutes:+d}", "PUT", base + "/bkt/k", signed, expect,
             now_s=NOW_S + 60 * minutes)


def run_random(count):
    """Random odd names, signed by botocore."""
    rng = random.Random(20261201)
    alphabet = "aZ09-._~ !\"#$%&'()*+,/:;<=>?@[\\]^`{|}é漢\U0001f600"
    c = client()
    for i in range(count):
        key = "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 24)))
        prefix = "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 12)))
        value = "".join(rng.choice(alphabet[:40].replace("\\", "")) for _ in range(rng.randint(0, 20)))
        value = value.encode("ascii", "ignore").decode()
        for operation, arguments in (
            ("head_object", dict(Bucket="bkt", Key=key)),
            ("list_objects_v2", dict(Bucket="bkt", Prefix=prefix, StartAfter=key)),
            ("put_object", dict(Bucket="bkt", Key=key, Metadata={"v": value})),
        ):
            try:
                getattr(c, operation)(**arguments)
            except Exception:
                pass
            if not c.taken:
                continue
            request = c.taken.pop()
            emit(f"random-{i}-{operation}", request.method, request.url, list(request.headers.items()))


def run_curl():
    """Requests of curl --aws-sigv4, taken from a socket."""
    cases = [
        ("get", ["/bkt/k"]),
        ("get-query", ["/bkt?list-type=2&max-keys=5&prefix=a"]),
        ("put", ["-X", "PUT", "--data-binary", "hello", "-H", "Content-Type: text/plain", "/bkt/k"]),
        ("hash-given", ["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "/bkt/k?versionId=null"]),
        ("hash-given-put", ["-X", "PUT", "--data-binary", "hello", "-H",
                            "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-H", "x-amz-meta-b: t w  o",
                            "/bkt/a%20b+c"]),
        ("header", ["-H", "x-amz-meta-b: two", "-H", "x-amz-meta-a: one", "/bkt/k"]),
    ]
    for name, arguments in cases:
        server = socket.create_server(("127.0.0.1", 0))
        port = server.getsockname()[1]
        got = []

        def serve():
            connection, _ = server.accept()
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536)
            got.append(data)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        subprocess.run(
            ["curl", "-s", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{KEY}:{SECRET}",
             *arguments[:-1], f"http://127.0.0.1:{port}{arguments[-1]}"], check=True)
        thread.join()
        server.close()
        lines = got[0].split(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ")
        headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
        # curl 7.88 sends no x-amz-content-sha256; AWS asks for it, so may we.
        has_hash = any(n.lower() == "x-amz-content-sha256" for n, _ in headers)
        emit("curl-" + name, method, "http://127.0.0.1" + target, headers,
             "OK" if has_hash else "INVALID_REQUEST", now_s=int(time.time()))


def main():
    hold_clock()
    run_operations()
    run_presigned()
    run_raw()
    run_random(40)
    run_curl()


if __name__ == "__main__":
    main()
