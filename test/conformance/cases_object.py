"""Objects: PUT, GET, HEAD; keys; headers and metadata; ranges; conditional reads; parts."""
import datetime
import email.utils
import urllib.parse

import wire
from suite import case

ODD_KEYS = [".", "..", "/", "//", "a//b", "a/", "a", "a/b", "./a", "../a", "a/..", "a/./b", " ", " a ", "a b", "+", "a+b", "%",
            "a%2Fb", "%41", "~", "a=b/c:d,e@f", "\"$&'<>_:", "_", "_ ", "__", "?versionId", "?versionId=1", "#frag", "a?b", "é",
            "日本語/ключ", "\U0001F600", "e\u0301", "a\nb", "a\tb", "a\x1fb", "\x7f", "a\\b", "*", "[x]{y}|z^`",
            "x" * 1024, "é" * 512, "/x/y", "x/y", "end/", "0" * 300 + "/1"]


@case("Object key naming; B37, B52, B56, B85, B118; s3-tests test_bucket_create_special_key_names")
def odd_keys_are_kept(t):
    b = t.bucket()
    bodies = {}
    for i, key in enumerate(ODD_KEYS):
        bodies[key] = f"{i} is {key!r}".encode()
        answer = t.answer(t.http.put(b, key, bodies[key]), 200, what=key)
        t.equal(answer.headers["etag"], wire.etag(bodies[key]), key)
    for key, body in bodies.items():
        t.equal(t.http.get(b, key).body, body, f"GET {key!r}")
        t.equal(t.http.request("HEAD", b, key).headers["content-length"], str(len(body)), f"HEAD {key!r}")
    t.equal(t.http.keys(b), sorted(bodies, key=str.encode))
    for key in ODD_KEYS:
        t.answer(t.http.delete(b, key), 204, what=key)
        t.answer(t.http.get(b, key), 404, "NoSuchKey", key)
        bodies.pop(key)
        if len(bodies) % 8 == 0:
            t.equal(t.http.keys(b), sorted(bodies, key=str.encode), f"after DELETE of {key!r}")


@case("Object key naming, by boto3: its own escaping")
def odd_keys_by_boto3(t):
    b = t.bucket()
    for key in ODD_KEYS:
        t.s3.put_object(Bucket=b, Key=key, Body=key.encode())
    for key in ODD_KEYS:
        t.equal(t.s3.get_object(Bucket=b, Key=key)["Body"].read(), key.encode(), repr(key))
    seen = [o["Key"] for page in t.s3.get_paginator("list_objects_v2").paginate(Bucket=b, PaginationConfig={"PageSize": 7})
            for o in page.get("Contents", [])]
    t.equal(seen, sorted(ODD_KEYS, key=str.encode))


@case("Object key naming; B85: KeyTooLongError")
def keys_have_at_most_1024_bytes(t):
    b = t.bucket()
    for key in ("k" * 1025, "é" * 512 + "x"):
        t.answer(t.http.put(b, key, b"x"), 400, "KeyTooLongError")
        t.answer(t.http.get(b, key), 400, "KeyTooLongError")
    t.equal(t.http.keys(b), [])


@case("s3-tests test_object_read_unreadable: keys are UTF-8")
def keys_are_utf8(t):
    b = t.bucket()
    for raw in ("%ff", "%c3%28", "a%80", "%ed%a0%80"):
        head, _ = wire.head(t.store, "PUT", f"/{b}/{raw}", {"content-length": "0"})
        t.answer(t.wire().send(head).receive(), 400, what=raw)
    for raw in ("%", "%4", "%zz", "a%"):
        head, _ = wire.head(t.store, "GET", f"/{b}/{raw}")
        answer = t.wire().send(head).receive()
        t.equal(answer.status, 400, raw)


@case("RFC 3986 2.3: any spelling of a path names the same key; B37")
def spelling_of_the_path(t):
    b = t.bucket()
    t.http.put(b, "a+b~c=d/e", b"x")
    for raw in ("a%2Bb~c%3Dd/e", "a+b~c=d/e", "%61%2bb%7ec%3dd%2fe", "a%2Bb%7Ec=d/e"):
        canonical = "/" + b + "/" + urllib.parse.quote("a+b~c=d/e", safe="/-_.~")
        head, headers = wire.head(t.store, "GET", canonical)
        head = head.replace(canonical.encode(), f"/{b}/{raw}".encode(), 1)
        t.equal(t.wire().send(head).receive().body, b"x", raw)


@case("API PutObject: ETag is the MD5 of the body; B73, B81")
def etag_is_md5_at_every_size(t):
    b = t.bucket()
    for size in (0, 1, 4095, 4096, 4097, 32767, 32768, 32769, 65536, 100000, 1 << 20, (4 << 20) - 1, (4 << 20) + 1, 9 << 20):
        body = t.bytes(size)
        put = t.answer(t.http.put(b, "k", body), 200, what=size)
        t.equal(put.headers["etag"], wire.etag(body), size)
        got = t.answer(t.http.get(b, "k"), 200, what=size)
        t.true(got.body == body, f"body of {size} bytes came back different")
        t.equal((got.headers["etag"], got.headers["content-length"]), (wire.etag(body), str(size)), size)
        head = t.http.request("HEAD", b, "k")
        t.equal((head.headers["etag"], head.headers["content-length"]), (wire.etag(body), str(size)), size)


STANDARD = {"Cache-Control": "max-age=60, private", "Content-Disposition": "attachment; filename=\"a b.txt\"",
            "Content-Encoding": "gzip", "Content-Language": "de, en", "Content-Type": "text/plain; charset=\"utf-8\"",
            "Expires": "Thu, 01 Dec 2044 16:00:00 GMT"}


@case("API PutObject: standard headers")
def standard_headers_round_trip(t):
    b = t.bucket()
    t.answer(t.http.put(b, "k", b"x", STANDARD), 200)
    for method in ("GET", "HEAD"):
        answer = t.answer(t.http.request(method, b, "k"), 200)
        for name, value in STANDARD.items():
            t.equal(answer.headers.get(name.lower()), value, f"{method} {name}")
    t.http.put(b, "k", b"x")
    answer = t.http.get(b, "k")
    for name in STANDARD:
        if name != "Content-Type":
            t.true(name.lower() not in answer.headers, f"{name} outlived an overwrite")


@case("API PutObject; AWS measured: the default content type")
def default_content_type(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    kind = t.http.get(b, "k").headers["content-type"]
    t.true(kind in ("binary/octet-stream", "application/octet-stream"), kind)


@case("User-defined object metadata; B80; s3-tests test_object_set_get_metadata_*")
def metadata_round_trips(t):
    b = t.bucket()
    metadata = {"a": "1", "mixed-case": "Value With Spaces", "empty": "", "under_score.dot": "x;y=z, \"q\"", "x" * 100: "y"}
    t.answer(t.http.put(b, "k", b"x", {f"X-Amz-Meta-{k}": v for k, v in metadata.items()}), 200)
    for method in ("GET", "HEAD"):
        headers = t.http.request(method, b, "k").headers
        seen = {k[11:]: v for k, v in headers.items() if k.startswith("x-amz-meta-")}
        t.equal(seen, metadata, method)
    t.http.put(b, "k", b"x", {"x-amz-meta-new": "1"})
    headers = t.http.get(b, "k").headers
    t.equal([k for k in headers if k.startswith("x-amz-meta-")], ["x-amz-meta-new"], "after an overwrite")


@case("Issue 3: metadata round-trips byte for byte")
def metadata_bytes_are_kept(t):
    b = t.bucket()
    head, _ = wire.head(t.store, "PUT", f"/{b}/k", {"x-amz-meta-utf8": "caf\u00e9 \u65e5", "content-length": "1"})
    t.answer(t.wire().send(head, b"x").receive(), 200)
    t.equal(t.http.get(b, "k").headers["x-amz-meta-utf8"].encode("latin-1").decode(), "caf\u00e9 \u65e5")


@case("API PutObject: MetadataTooLarge")
def metadata_has_at_most_2_kib(t):
    b = t.bucket()
    t.answer(t.http.put(b, "k", b"x", {"x-amz-meta-a": "v" * 2047}), 200)
    t.answer(t.http.put(b, "k2", b"x", {"x-amz-meta-a": "v" * 2048}), 400, "MetadataTooLarge")
    t.answer(t.http.get(b, "k2"), 404)


@case("API PutObject: Content-Encoding aws-chunked is not stored; B6")
def aws_chunked_is_dropped_from_the_encoding(t):
    b = t.bucket()
    for given, kept in [("aws-chunked", None), ("aws-chunked,gzip", "gzip"), ("gzip, aws-chunked", "gzip"),
                        ("gzip,aws-chunked,deflate,aws-chunked", "gzip,deflate"), ("deflate, gzip,aws-chunked", "deflate, gzip")]:
        t.answer(t.http.put(b, "k", b"plain", {"Content-Encoding": given}), 200, what=given)
        answer = t.http.get(b, "k")
        t.equal(answer.headers.get("content-encoding"), kept, given)
        t.equal(answer.body, b"plain")


@case("API GetObject: response-* parameters; B78")
def response_overrides(t):
    b = t.bucket()
    t.http.put(b, "k", b"x", STANDARD)
    query = {f"response-{k.lower()}": v for k, v in {
        "Cache-Control": "no-cache", "Content-Disposition": "attachment; filename=\"ä +.txt\"", "Content-Encoding": "identity",
        "Content-Language": "fr", "Content-Type": "foo/bar", "Expires": "Mon, 01 Jan 2035 00:00:00 GMT"}.items()}
    for method in ("GET", "HEAD"):
        answer = t.answer(t.http.request(method, b, "k", query=query), 200)
        for name, value in query.items():
            seen = answer.headers.get(name[len("response-"):], "").encode("latin-1").decode()
            t.equal(seen, value, f"{method} {name}")


@case("API HeadObject, GetObject: Last-Modified and Accept-Ranges")
def date_headers(t):
    b = t.bucket()
    before = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    t.http.put(b, "k", b"x")
    headers = t.http.request("HEAD", b, "k").headers
    modified = email.utils.parsedate_to_datetime(headers["last-modified"])
    t.true(before <= modified <= before + datetime.timedelta(seconds=30), modified)
    t.equal(headers["accept-ranges"], "bytes")
    t.true("date" in headers, headers)
    listed = t.s3.list_objects_v2(Bucket=b)["Contents"][0]
    t.equal(listed["LastModified"].replace(microsecond=0), modified)
    t.equal((listed["ETag"], listed["Size"], listed["StorageClass"]), (wire.etag(b"x"), 1, "STANDARD"))


@case("API GetObject: NoSuchKey; HEAD without body")
def missing_keys(t):
    b = t.bucket()
    answer = t.answer(t.http.get(b, "no"), 404, "NoSuchKey")
    t.true(b"<Key>no</Key>" in answer.body, answer.body)
    head = t.http.request("HEAD", b, "no")
    t.equal((head.status, head.body), (404, b""))
    t.fails(404, "404", t.s3.head_object, Bucket=b, Key="no")
    t.fails(404, "NoSuchBucket", t.s3.get_object, Bucket="no-such-bucket-here", Key="no")


# ---- ranges ----

RANGES = [("bytes=0-0", 0, 1), ("bytes=0-4", 0, 5), ("bytes=5-", 5, None), ("bytes=-3", -3, None), ("bytes=2-1000000000", 2, None),
          ("bytes=-1000000000", 0, None), ("bytes=-18446744073709551615", 0, None), ("bytes=1-99999999999999999999", 1, None)]


@case("RFC 9110 14.1.2; API GetObject Range; B74")
def ranges(t):
    b = t.bucket()
    for size in (10, 70000, 5 << 20):
        body = t.bytes(size)
        t.http.put(b, "k", body)
        cut = size // 2
        many = RANGES + [(f"bytes={cut - 3}-{cut + 3}", cut - 3, cut + 4), (f"bytes={size - 1}-", size - 1, None),
                         (f"bytes=1-{size - 2}", 1, size - 1)]
        for field, start, end in many:
            want = body[start:end]
            first = start if start >= 0 else size + start
            for method in ("GET", "HEAD"):
                answer = t.answer(t.http.request(method, b, "k", headers={"Range": field}), 206, what=f"{method} {field}")
                t.equal(answer.headers["content-range"], f"bytes {first}-{first + len(want) - 1}/{size}", field)
                t.equal(answer.headers["content-length"], str(len(want)), field)
                t.true(method == "HEAD" or answer.body == want, f"{field} of {size}: other bytes")


@case("RFC 9110 14.2: a range that is not understood is ignored; B74")
def ranges_ignored(t):
    b = t.bucket()
    t.http.put(b, "k", b"0123456789")
    for field in ("bytes=5-2", "items=0-1", "bytes", "bytes=", "bytes=a-b", "bytes=--1", "0-1", "bytes=1", "bytes=-"):
        answer = t.answer(t.http.get(b, "k", {"Range": field}), 200, what=field)
        t.equal(answer.body, b"0123456789", field)


@case("RFC 9110 15.5.17; B74, B76: InvalidRange with the size")
def ranges_unsatisfiable(t):
    b = t.bucket()
    t.http.put(b, "k", b"0123456789")
    t.http.put(b, "empty", b"")
    for key, field in [("k", "bytes=10-"), ("k", "bytes=10-20"), ("k", "bytes=-0"), ("empty", "bytes=0-"), ("empty", "bytes=0-0"),
                       ("empty", "bytes=-1")]:
        answer = t.answer(t.http.get(b, key, {"Range": field}), 416, "InvalidRange", f"{key} {field}")
        size = 10 if key == "k" else 0
        t.equal(answer.headers["content-range"], f"bytes */{size}", field)
        t.true(f"<ActualObjectSize>{size}</ActualObjectSize>".encode() in answer.body, answer.body)
        t.true(f"<RangeRequested>{field}</RangeRequested>".encode() in answer.body, answer.body)


@case("RFC 9110 13.1.5: If-Range")
def if_range(t):
    b = t.bucket()
    etag = t.http.put(b, "k", b"0123456789").headers["etag"]
    t.answer(t.http.get(b, "k", {"Range": "bytes=1-2", "If-Range": etag}), 206)
    t.answer(t.http.get(b, "k", {"Range": "bytes=1-2", "If-Range": '"other"'}), 200)


# ---- conditional reads ----


def http_date(offset):
    when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=offset)
    return email.utils.format_datetime(when, usegmt=True)


@case("RFC 9110 13; API GetObject conditions; B82")
def conditional_reads(t):
    b = t.bucket()
    etag = t.http.put(b, "k", b"0123456789").headers["etag"]
    bare = etag.strip('"')
    past, future = http_date(-86400), http_date(86400)
    for headers, status in [
            ({"If-Match": etag}, 200), ({"If-Match": bare}, 200), ({"If-Match": f'"x", {etag}'}, 200), ({"If-Match": "*"}, 200),
            ({"If-Match": '"abc"'}, 412), ({"If-None-Match": etag}, 304), ({"If-None-Match": bare}, 304),
            ({"If-None-Match": "*"}, 304), ({"If-None-Match": '"abc"'}, 200), ({"If-None-Match": ""}, 200),
            ({"If-None-Match": f"W/{etag}"}, 304), ({"If-Modified-Since": past}, 200), ({"If-Modified-Since": future}, 304),
            ({"If-Unmodified-Since": past}, 412), ({"If-Unmodified-Since": future}, 200), ({"If-Modified-Since": "garbage"}, 200),
            ({"If-Unmodified-Since": "garbage"}, 200), ({"If-Match": etag, "If-Unmodified-Since": past}, 200),
            ({"If-None-Match": '"abc"', "If-Modified-Since": future}, 200),
            ({"If-None-Match": etag, "If-Modified-Since": past}, 304),
            ({"If-Unmodified-Since": "Sunday, 06-Nov-94 08:49:37 GMT"}, 412), ({"If-Unmodified-Since": "Sun Nov  6 08:49:37 1994"}, 412),
            ({"If-Match": '"abc"', "Range": "bytes=0-1"}, 412), ({"If-Match": etag, "Range": "bytes=0-1"}, 206)]:
        for method in ("GET", "HEAD"):
            answer = t.http.request(method, b, "k", headers=headers)
            t.equal(answer.status, status, f"{method} {headers}")
            if status == 304:
                t.equal((answer.headers["etag"], answer.body), (etag, b""), f"{method} {headers}")
            if status == 412 and method == "GET":
                t.equal(answer.code, "PreconditionFailed")
    t.answer(t.http.get(b, "missing", {"If-Match": etag}), 404, "NoSuchKey")
    t.answer(t.http.get(b, "missing", {"If-None-Match": "*"}), 404, "NoSuchKey")


# ---- parts and versions ----


@case("API GetObject partNumber; B77; s3-tests test_multipart_get_part, test_non_multipart_get_part")
def part_number_of_a_plain_object(t):
    b = t.bucket()
    t.http.put(b, "k", b"0123456789")
    answer = t.http.get(b, "k", query={"partNumber": "1"})
    t.true(answer.status in (200, 206) and answer.body == b"0123456789", answer.status)
    t.answer(t.http.get(b, "k", query={"partNumber": "2"}), 400, "InvalidPart")
    t.answer(t.http.get(b, "k", query={"partNumber": "0"}), 400, "InvalidArgument")
    t.answer(t.http.get(b, "k", query={"partNumber": "10001"}), 400, "InvalidArgument")
    t.answer(t.http.get(b, "k", query={"partNumber": "x"}), 400, "InvalidArgument")
    t.answer(t.http.get(b, "k", {"Range": "bytes=0-1"}, {"partNumber": "1"}), 400, "InvalidRequest")


@case("API GetObject versionId on a bucket without versions")
def versions_of_an_unversioned_bucket(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    t.equal(t.http.get(b, "k", query={"versionId": "null"}).body, b"x")
    t.answer(t.http.get(b, "k", query={"versionId": "3sL4kqtJlcpXroDTDmJ.rmSpXd3dIbrHY"}), 404, "NoSuchVersion")
    t.answer(t.http.request("DELETE", b, "k", query={"versionId": "null"}), 204)
    t.answer(t.http.get(b, "k"), 404, "NoSuchKey")


@case("RFC 9112 7.1: Transfer-Encoding chunked with a signed hash, without Content-Length; s3-tests 2.1")
def chunked_transfer_with_a_signed_hash(t):
    import hashlib
    b = t.bucket()
    body = t.bytes(150000)
    head, _ = wire.head(t.store, "PUT", f"/{b}/k", {"transfer-encoding": "chunked"},
                        payload_hash=hashlib.sha256(body).hexdigest())
    framed = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(p), p) for p in wire.pieces(body, 7777)) + b"0\r\n\r\n"
    t.answer(t.wire().send(head, framed).receive(), 200)
    t.true(t.http.get(b, "k").body == body, "other bytes")


@case("API PutObject: MissingContentLength; API CreateMultipartUpload without length; B81")
def missing_length(t):
    b = t.bucket()
    head, _ = wire.head(t.store, "PUT", f"/{b}/k")
    t.answer(t.wire().send(head).receive(), 411, "MissingContentLength")
    head, _ = wire.head(t.store, "POST", f"/{b}/k", query=[("uploads", "")])
    t.answer(t.wire().send(head).receive("POST"), 200)
    head, _ = wire.head(t.store, "DELETE", f"/{b}/k")
    t.answer(t.wire().send(head).receive("DELETE"), 204)
    head, _ = wire.head(t.store, "PUT", f"/{t.name_bucket()}")
    t.answer(t.wire().send(head).receive("PUT"), 200)


@case("API PutObject: EntityTooLarge above 5 GiB, before the body")
def too_large(t):
    b = t.bucket()
    head, _ = wire.head(t.store, "PUT", f"/{b}/k", {"content-length": str((5 << 30) + 1)})
    t.answer(t.wire().send(head).receive(), 400, "EntityTooLarge")


@case("API PutObject: x-amz-storage-class; B122 empty values count as absent")
def storage_classes(t):
    b = t.bucket()
    t.answer(t.http.put(b, "k", b"x", {"x-amz-storage-class": "STANDARD"}), 200)
    t.true("x-amz-storage-class" not in t.http.request("HEAD", b, "k").headers, "STANDARD is not announced")
    t.answer(t.http.put(b, "k", b"x", {"x-amz-storage-class": "FOO"}), 400, "InvalidStorageClass")
    t.answer(t.http.put(b, "k", b"x", {"x-amz-storage-class": "", "x-amz-acl": "", "x-amz-tagging": ""}), 200)


@case("API PutObject: x-amz-acl; B136 canned ACLs that change nothing are accepted")
def canned_acl_values(t):
    b = t.bucket()
    for acl in ("private", "bucket-owner-full-control"):
        t.answer(t.http.put(b, "k", b"x", {"x-amz-acl": acl}), 200, what=acl)
    t.answer(t.http.put(b, "k", b"x", {"x-amz-acl": "public-ready"}), 400, "InvalidArgument")
    t.answer(t.http.put(b, "k2", b"x", {"x-amz-acl": "public-read"}), 501, "NotImplemented")
    t.answer(t.http.get(b, "k2"), 404)


@case("Issue 3: what is not built answers 501 and stores nothing")
def unbuilt_headers(t):
    b = t.bucket()
    for name, value in [("x-amz-server-side-encryption", "AES256"), ("x-amz-tagging", "a=b"), ("x-amz-grant-read", "id=x"),
                        ("x-amz-server-side-encryption-customer-algorithm", "AES256"), ("x-amz-write-offset-bytes", "1")]:
        t.answer(t.http.put(b, "k", b"x", {name: value}), 501, "NotImplemented", name)
    t.answer(t.http.put(b, "k", b"x", {"x-amz-object-lock-mode": "COMPLIANCE"}), 400, "InvalidRequest")
    t.answer(t.http.get(b, "k"), 404, "NoSuchKey")


@case("s3-tests 2.1: x-amz-expected-bucket-owner")
def expected_bucket_owner(t):
    b = t.bucket()
    me = t.account("main").key
    t.answer(t.http.put(b, "k", b"x", {"x-amz-expected-bucket-owner": me}), 200)
    t.answer(t.http.put(b, "k", b"x", {"x-amz-expected-bucket-owner": "somebody"}), 403, "AccessDenied")
    t.answer(t.http.request("GET", b, headers={"x-amz-expected-bucket-owner": "somebody"}), 403, "AccessDenied")
