"""Signatures: SigV4 in headers and in URLs, SigV2 in URLs, clocks, keys, what must be signed."""
import base64
import datetime
import hashlib
import hmac
import ssl
import time
import urllib.parse
import urllib.request

import s3lib
import wire
from suite import case


def now(seconds=0):
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)


def fetch(t, url, method="GET", body=None, headers=None):
    """One plain request to a presigned URL."""
    parts = urllib.parse.urlsplit(url)
    connection = wire.Wire(t.store)
    t.open.append(connection)
    lines = {"host": parts.netloc, **({"content-length": str(len(body))} if body is not None else {}), **(headers or {})}
    head = f"{method} {parts.path}?{parts.query} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"
    return connection.send(head, body or b"").receive(method)


@case("Authenticating requests: wrong secret, unknown key")
def wrong_credentials(t):
    b = t.bucket()
    main = t.account("main")
    t.answer(s3lib.Client(t.store, main.key, "wrong" * 8).request("GET", b), 403, "SignatureDoesNotMatch")
    t.answer(s3lib.Client(t.store, "GK" + "0" * 24, main.secret).request("GET", b), 403, "InvalidAccessKeyId")
    t.answer(s3lib.Client(t.store, main.key, t.account("other").secret).request("GET", b), 403, "SignatureDoesNotMatch")


@case("Garage: key expiry")
def expired_keys(t):
    time.sleep(max(0, t.account("expired_at") - time.monotonic()))
    expired = t.account("expired")
    t.answer(s3lib.Client(t.store, expired.key, expired.secret).request("GET"), 403, "AccessDenied")


@case("Garage: key delete, key import")
def deleted_and_imported_keys(t):
    b = t.bucket()
    key, secret = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    t.store.cli("key", "import", key, secret, "-n", "imported", "--yes")
    t.store.cli("bucket", "allow", b, "--key", key, "--read", "--write")
    client = s3lib.Client(t.store, key, secret)
    t.open.append(client)
    t.answer(client.put(b, "k", b"x"), 200)
    t.store.cli("key", "delete", "--yes", key)
    t.answer(client.get(b, "k"), 403, "InvalidAccessKeyId")


@case("Authenticating requests: 15 minutes of skew, both times in the message; B148")
def clock_skew(t):
    b = t.bucket()
    for seconds, good in ((0, True), (-800, True), (800, True), (-1000, False), (1000, False), (-86000, False)):
        head, _ = wire.head(t.store, "GET", f"/{b}", now=now(seconds))
        answer = t.wire().send(head).receive()
        t.answer(answer, 200 if good else 403, None if good else "RequestTimeTooSkewed", seconds)
        if not good:
            t.true(now(seconds).strftime("%Y-%m-%dT").encode() in answer.body, answer.body)


@case("Authenticating requests: any change breaks the signature")
def changed_requests(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    head, _ = wire.head(t.store, "GET", f"/{b}/k", {"x-amz-meta-a": "1", "range": "bytes=0-0"})
    t.answer(t.wire().send(head).receive(), 206)
    for old, new in ((b"GET ", b"DELETE "), (b"/k HTTP", b"/j HTTP"), (b"/k HTTP", b"/k?acl HTTP"), (b"x-amz-meta-a: 1", b"x-amz-meta-a: 2"),
                     (b"bytes=0-0", b"bytes=0-1"), (b"UNSIGNED-PAYLOAD", b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")):
        t.answer(t.wire().send(head.replace(old, new, 1)).receive(), 403, "SignatureDoesNotMatch", (old, new))
    t.equal(t.http.get(b, "k").body, b"x")


@case("B36, B148: every x-amz-* header that is sent must be signed")
def unsigned_headers(t):
    b = t.bucket()
    for extra in ("x-amz-meta-a: 1\r\n", "X-Amz-Acl: private\r\n", "x-amz-copy-source: a/b\r\n"):
        head, _ = wire.head(t.store, "PUT", f"/{b}/k", {"content-length": "0"}, extra=extra)
        t.answer(t.wire().send(head).receive(), 403, "AccessDenied", extra)
    for extra in ("content-type: foo/bar\r\n", "user-agent: x\r\n", "accept-encoding: gzip\r\n", "x-forwarded-for: 1.2.3.4\r\n"):
        head, _ = wire.head(t.store, "PUT", f"/{b}/k", {"content-length": "0"}, extra=extra)
        t.answer(t.wire().send(head).receive(), 200, what=extra)


@case("Authenticating requests: malformed Authorization; B32")
def malformed_authorization(t):
    b = t.bucket()
    head, headers = wire.head(t.store, "GET", f"/{b}")
    good = headers["Authorization"]
    credential = good.split("Credential=")[1].split(",")[0]
    for status, code, value in [
            (400, "AuthorizationHeaderMalformed", "AWS4-HMAC-SHA256"), (400, "AuthorizationHeaderMalformed", "AWS4-HMAC-SHA256 foo"),
            (400, "AuthorizationHeaderMalformed", good.replace("SignedHeaders=host;", "SignedHeaders=host;;")),
            (400, "AuthorizationHeaderMalformed", good.replace(credential, credential.replace("/s3/", "/ec2/"))),
            (400, "AuthorizationHeaderMalformed", good.replace("aws4_request", "aws4")),
            (400, "AuthorizationHeaderMalformed", good.split(", Signature=")[0]),
            (400, "AuthorizationHeaderMalformed", good.replace(credential, credential.replace(now().strftime("/%Y%m%d/"), "/20200101/"))),
            (400, None, "Basic Zm9vOmJhcg=="), (400, None, "AWSkey:sig"), (400, None, "AWS key:sig"), (403, "SignatureDoesNotMatch", good[:-1] + "g"),
            (403, "AccessDenied", "")]:
        answer = t.wire().send(head.replace(good.encode(), value.encode())).receive()
        t.answer(answer, status, code, value)
    doubled = head.replace(b"Authorization: ", b"Authorization: " + good.encode() + b"\r\nAuthorization: ")
    t.answer(t.wire().send(doubled).receive(), 400, what="two Authorization headers")


@case("s3-tests test_object_create_date_and_amz_date: x-amz-date wins; an RFC 1123 Date alone will do")
def date_headers_of_requests(t):
    b = t.bucket()
    head, _ = wire.head(t.store, "GET", f"/{b}", {"date": "Tue, 07 Jul 2009 21:53:04 GMT"})
    t.answer(t.wire().send(head).receive(), 200, what="a wrong Date beside x-amz-date")
    head, _ = wire.head(t.store, "GET", f"/{b}", extra="date:\r\n")
    t.answer(t.wire().send(head).receive(), 200, what="an empty Date")
    head, _ = wire.head(t.store, "GET", f"/{b}", extra="date: x\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith((b"x-amz-date", b"date"))]
    t.answer(t.wire().send(b"\r\n".join(lines)).receive(), 403, what="no date at all")


@case("Issue 3: any region is accepted")
def any_region(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    for region in ("us-east-1", "eu-central-1", "garage", "auto", "x"):
        answer = s3lib.sign("GET", f"/{b}/k", [], {"host": f"localhost:{t.store.port}"}, "UNSIGNED-PAYLOAD", region=region)
        lines = "".join(f"{k}: {v}\r\n" for k, v in answer.items())
        t.answer(t.wire().send(f"GET /{b}/k HTTP/1.1\r\n{lines}\r\n").receive(), 200, what=region)


@case("B28: repeated query names are sorted by value too")
def repeated_query_names(t):
    b = t.bucket()
    for query in ([("prefix", "2"), ("prefix", "1")], [("prefix", "x"), ("b", "b"), ("a", "b"), ("a", "a"), ("a", "B")]):
        head, _ = wire.head(t.store, "GET", f"/{b}", query=query)
        t.answer(t.wire().send(head).receive(), 200, what=query)


@case("B29: host with capitals, default ports, [::1]")
def host_spellings(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    port = t.store.port
    for signed, sent in ((f"localhost:{port}", f"LOCALHOST:{port}"), ("example.org", "example.org"), ("example.org:80", "example.org"),
                         ("example.org", "example.org:443"), (f"[::1]:{port}", f"[::1]:{port}"), ("127.0.0.1", "127.0.0.1")):
        head, _ = wire.head(t.store, "GET", f"/{b}/k", host=signed)
        head = head.replace(f"host: {signed}".encode(), f"host: {sent}".encode())
        lower = sent == sent.lower()
        if lower:
            t.answer(t.wire().send(head).receive(), 200, what=(signed, sent))
        else:
            t.answer(t.wire().send(head).receive(), 200, what="a client that signs the lower-case host")
    head, _ = wire.head(t.store, "GET", f"/{b}/k", host="example.org")
    t.answer(t.wire().send(head.replace(b"host: example.org", b"host: example.com")).receive(), 403, "SignatureDoesNotMatch")


@case("B30: accept-encoding was signed as identity and rewritten on its way")
def accept_encoding_rewritten(t):
    b = t.bucket()
    head, _ = wire.head(t.store, "GET", f"/{b}", {"accept-encoding": "identity"})
    t.answer(t.wire().send(head.replace(b"accept-encoding: identity", b"accept-encoding: gzip")).receive(), 200)
    head, _ = wire.head(t.store, "GET", f"/{b}", {"accept-language": "de"})
    t.answer(t.wire().send(head.replace(b"accept-language: de", b"accept-language: en")).receive(), 403, "SignatureDoesNotMatch")


# ---- presigned, SigV4 ----


@case("Authenticating requests: query parameters (SigV4), by boto3; B108")
def presigned_v4(t):
    b = t.bucket()
    s3 = t.boto(signature_version="s3v4")
    key = "a b+c/é%"
    put = s3.generate_presigned_url("put_object", {"Bucket": b, "Key": key}, 60)
    t.true("X-Amz-Signature=" in put, put)
    t.answer(fetch(t, put, "PUT", b"body"), 200)
    t.answer(fetch(t, put, "PUT", b"body 2", {"content-type": "foo/bar"}), 200, what="headers that are not signed")
    get = s3.generate_presigned_url("get_object", {"Bucket": b, "Key": key, "ResponseContentDisposition": "attachment; filename=\"x y.txt\""}, 60)
    answer = t.answer(fetch(t, get), 200)
    t.equal((answer.body, answer.headers["content-type"], answer.headers["content-disposition"]),
            (b"body 2", "foo/bar", "attachment; filename=\"x y.txt\""))
    t.answer(fetch(t, get, headers={"Range": "bytes=0-1"}), 206)
    t.answer(fetch(t, get, "PUT", b"x"), 403, "SignatureDoesNotMatch", "another method")
    t.answer(fetch(t, get.replace("attachment", "inline")), 403, "SignatureDoesNotMatch", "another parameter")
    t.answer(fetch(t, put, "PUT", b"x", {"x-amz-acl": "public-read"}), 403, "AccessDenied", "an unsigned x-amz header")
    delete = s3.generate_presigned_url("delete_object", {"Bucket": b, "Key": key}, 60)
    t.answer(fetch(t, delete, "DELETE"), 204)
    t.answer(fetch(t, s3.generate_presigned_url("head_object", {"Bucket": b, "Key": key}, 60), "HEAD"), 404)


@case("GitLab: presigned parts, Complete and Abort; B108")
def presigned_multipart(t):
    b = t.bucket()
    s3 = t.boto(signature_version="s3v4")
    upload = t.s3.create_multipart_upload(Bucket=b, Key="k")["UploadId"]
    named = {"Bucket": b, "Key": "k", "UploadId": upload}
    part = t.answer(fetch(t, s3.generate_presigned_url("upload_part", {**named, "PartNumber": 1}, 60), "PUT", b"part"), 200)
    document = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part.headers['etag']}</ETag></Part></CompleteMultipartUpload>"
    t.answer(fetch(t, s3.generate_presigned_url("complete_multipart_upload", named, 60), "POST", document.encode()), 200)
    t.equal(t.http.get(b, "k").body, b"part")
    other = t.s3.create_multipart_upload(Bucket=b, Key="k")["UploadId"]
    t.answer(fetch(t, s3.generate_presigned_url("abort_multipart_upload", {**named, "UploadId": other}, 60), "DELETE"), 204)


def presign(t, method, path, expires="60", when=None, key=None, secret=None, change=None):
    """A SigV4 URL made from the specification."""
    when = when or now()
    stamp, date = when.strftime("%Y%m%dT%H%M%SZ"), when.strftime("%Y%m%d")
    scope = f"{date}/us-east-1/s3/aws4_request"
    query = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{key or s3lib.KEY}/{scope}", "X-Amz-Date": stamp,
             "X-Amz-Expires": expires, "X-Amz-SignedHeaders": "host"}
    query.update(change or {})
    query = {k: v for k, v in query.items() if v is not None}
    text = "&".join(f"{k}={urllib.parse.quote(v, safe='-_.~')}" for k, v in sorted(query.items()))
    host = f"localhost:{t.store.port}"
    canonical = f"{method}\n{path}\n{text}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    mac = b"AWS4" + (secret or s3lib.SECRET).encode()
    for part in (date, "us-east-1", "s3", "aws4_request", to_sign):
        mac = hmac.new(mac, part.encode(), hashlib.sha256).digest()
    return f"http://{host}{path}?{text}&X-Amz-Signature={mac.hex()}"


@case("Authenticating requests: X-Amz-Expires; s3-tests test_object_raw_get_x_amz_expires_*")
def presigned_v4_expiry(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    path = f"/{b}/k"
    t.answer(fetch(t, presign(t, "GET", path)), 200)
    t.answer(fetch(t, presign(t, "GET", path, "604800", now(-600000))), 200, what="a week")
    t.answer(fetch(t, presign(t, "GET", path, "60", now(-70))), 403, "AccessDenied", "expired")
    t.answer(fetch(t, presign(t, "GET", path, "60", now(2000))), 403, "AccessDenied", "from the future")
    for bad in ("604801", "-1", "0", "x", "", "99999999999999999999"):
        answer = fetch(t, presign(t, "GET", path, bad))
        t.true((answer.status, answer.code) in ((403, "AccessDenied"), (400, "AuthorizationQueryParametersError"), (403, "AuthorizationQueryParametersError")),
               (bad, answer.status, answer.code))


@case("Authenticating requests: AuthorizationQueryParametersError")
def presigned_v4_errors(t):
    b = t.bucket()
    path = f"/{b}/k"
    for change in ({"X-Amz-Credential": "foo"}, {"X-Amz-Date": "yesterday"}, {"X-Amz-Date": None}, {"X-Amz-Expires": None},
                   {"X-Amz-SignedHeaders": None}, {"X-Amz-Credential": f"{s3lib.KEY}/20200101/us-east-1/s3/aws4_request"},
                   {"X-Amz-Algorithm": "AWS4-HMAC-SHA1"}):
        answer = fetch(t, presign(t, "GET", path, change=change))
        t.answer(answer, 400, "AuthorizationQueryParametersError", change)
    t.answer(fetch(t, presign(t, "GET", path, secret="wrong")), 403, "SignatureDoesNotMatch")
    t.answer(fetch(t, presign(t, "GET", path, key="GK" + "0" * 24)), 403, "InvalidAccessKeyId")
    head, headers = wire.head(t.store, "GET", path)
    both = presign(t, "GET", path)
    answer = fetch(t, both, headers={"Authorization": headers["Authorization"], "x-amz-date": headers["x-amz-date"],
                                     "x-amz-content-sha256": headers["x-amz-content-sha256"]})
    t.answer(answer, 400, "InvalidArgument", "two mechanisms")


@case("B20: checksum parameters in a presigned URL (JS SDK v3) do not refuse the real body")
def presigned_checksum_parameters(t):
    b = t.bucket()
    url = presign(t, "PUT", f"/{b}/k", change={"x-amz-checksum-crc32": "AAAAAA==", "x-amz-sdk-checksum-algorithm": "CRC32", "x-id": "PutObject"})
    t.answer(fetch(t, url, "PUT", b"real body"), 200)
    got = t.http.get(b, "k", {"x-amz-checksum-mode": "ENABLED"})
    t.equal((got.body, got.headers.get("x-amz-checksum-crc32")), (b"real body", wire.checksum("CRC32", b"real body")))
    t.answer(fetch(t, url, "PUT", b"real body", {"x-amz-checksum-crc32": wire.checksum("CRC32", b"other")}), 400, "BadDigest",
             "a header of the uploader is verified")
    url = t.s3.generate_presigned_url("put_object", {"Bucket": b, "Key": "k", "ChecksumAlgorithm": "SHA256"}, 60)
    t.true("x-amz-sdk-checksum-algorithm=SHA256" in url, url)
    answer = t.answer(fetch(t, url, "PUT", b"x"), 200)
    t.equal(answer.headers.get("x-amz-checksum-sha256"), wire.checksum("SHA256", b"x"))


# ---- presigned, SigV2 ----


@case("clients 1: boto3 presigns with SigV2 in us-east-1")
def presigned_v2(t):
    b = t.bucket()
    key = "a b+c/é%"
    put = t.s3.generate_presigned_url("put_object", {"Bucket": b, "Key": key}, 60)
    t.true("AWSAccessKeyId=" in put and "Signature=" in put, put)
    t.answer(fetch(t, put, "PUT", b"body"), 200)
    get = t.s3.generate_presigned_url("get_object", {"Bucket": b, "Key": key, "ResponseContentType": "foo/bar"}, 60)
    answer = t.answer(fetch(t, get), 200)
    t.equal((answer.body, answer.headers["content-type"]), (b"body", "foo/bar"))
    t.answer(fetch(t, get.replace("foo%2Fbar", "foo%2Fbaz")), 403, "SignatureDoesNotMatch")
    t.answer(fetch(t, get, "DELETE"), 403, "SignatureDoesNotMatch")
    typed = t.s3.generate_presigned_url("put_object", {"Bucket": b, "Key": "typed", "ContentType": "foo/bar", "Metadata": {"a": "1"}}, 60)
    t.answer(fetch(t, typed, "PUT", b"x", {"content-type": "foo/bar", "x-amz-meta-a": "1"}), 200)
    t.answer(fetch(t, typed, "PUT", b"x", {"content-type": "foo/baz", "x-amz-meta-a": "1"}), 403, "SignatureDoesNotMatch")
    for operation in ("list_objects_v2", "list_multipart_uploads"):
        t.answer(fetch(t, t.s3.generate_presigned_url(operation, {"Bucket": b}, 60)), 200, what=operation)
    t.answer(fetch(t, t.s3.generate_presigned_url("delete_object", {"Bucket": b, "Key": key}, 60), "DELETE"), 204)


def presign_v2(t, method, path, expires, key=s3lib.KEY, secret=s3lib.SECRET):
    """Signing and authenticating REST requests (Signature Version 2): query string authentication."""
    mac = hmac.new(secret.encode(), f"{method}\n\n\n{expires}\n{path}".encode(), hashlib.sha1).digest()
    signature = urllib.parse.quote(base64.b64encode(mac).decode(), safe="")
    return f"http://localhost:{t.store.port}{path}?AWSAccessKeyId={key}&Expires={expires}&Signature={signature}"


@case("SigV2 query string authentication: expiry and wrong keys; B32, B33")
def presigned_v2_errors(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    t.http.put(b, "é", b"y")
    path, later = f"/{b}/k", int(time.time()) + 60
    t.answer(fetch(t, presign_v2(t, "GET", path, later)), 200)
    t.equal(fetch(t, presign_v2(t, "GET", f"/{b}/%C3%A9", later)).body, b"y", "signed over the path as sent")
    t.answer(fetch(t, presign_v2(t, "GET", path, int(time.time()) - 5)), 403, "AccessDenied", "expired")
    t.answer(fetch(t, presign_v2(t, "GET", path, later, secret="wrong")), 403, "SignatureDoesNotMatch")
    t.answer(fetch(t, presign_v2(t, "GET", path, later, key="GK" + "0" * 24)), 403, "InvalidAccessKeyId")
    for expires in ("x", "-1", ""):
        answer = fetch(t, presign_v2(t, "GET", path, expires))
        t.true(answer.status in (400, 403), (expires, answer.status))
    url = presign_v2(t, "PUT", path, later)
    t.answer(fetch(t, url, "PUT", b"z", {"x-amz-copy-source": f"{b}/k"}), 403, "SignatureDoesNotMatch", "SigV2 signs every x-amz header")


@case("urllib: a presigned URL works with a plain HTTP library")
def presigned_with_a_plain_library(t):
    b = t.bucket()
    t.http.put(b, "k", b"x" * 100000)
    context = ssl.create_default_context(cafile=f"{t.store.dir}/tls.crt") if t.store.tls else None
    for options in ({}, {"signature_version": "s3v4"}):
        url = t.boto(**options).generate_presigned_url("get_object", {"Bucket": b, "Key": "k"}, 60)
        with urllib.request.urlopen(url, context=context) as answer:
            t.equal(len(answer.read()), 100000)
