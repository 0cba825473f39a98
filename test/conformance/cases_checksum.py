"""Checksums of PutObject and GetObject: five algorithms, in headers and in trailers, and Content-MD5."""
import base64

import wire
from suite import case

UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


@case("CRC-64/NVME of 123456789; B8")
def the_suites_own_checksums_are_right(t):
    t.equal(wire.checksum("CRC64NVME", b"123456789"), "rosUhgp5mIg=")
    t.equal(wire.crc32c(b"123456789"), 0xE3069283)
    b = t.bucket()
    t.answer(t.http.put(b, "k", b"123456789", {"x-amz-checksum-crc64nvme": "rosUhgp5mIg="}), 200)


@case("Checking object integrity: x-amz-checksum-* headers; s3-tests test_object_checksum_*")
def checksum_headers(t):
    b = t.bucket()
    for algorithm in wire.DIGESTS:
        name = wire.header_of(algorithm)
        for size in (0, 10, 50000, 400000):
            body = t.bytes(size)
            value = wire.checksum(algorithm, body)
            put = t.answer(t.http.put(b, "k", body, {name: value, "x-amz-sdk-checksum-algorithm": algorithm}), 200, what=algorithm)
            t.equal((put.headers.get(name), put.headers.get("x-amz-checksum-type")), (value, "FULL_OBJECT"), f"{algorithm} PUT")
            for method in ("GET", "HEAD"):
                plain = t.http.request(method, b, "k").headers
                t.true(not any(h.startswith("x-amz-checksum-") for h in plain), f"{algorithm} {method}: unasked")
                asked = t.http.request(method, b, "k", headers={"x-amz-checksum-mode": "ENABLED"}).headers
                t.equal((asked.get(name), asked.get("x-amz-checksum-type")), (value, "FULL_OBJECT"), f"{algorithm} {method}")
        part = t.http.get(b, "k", {"x-amz-checksum-mode": "ENABLED", "Range": "bytes=0-9"})
        t.true(name not in part.headers, "the checksum of the whole with a range: clients would compare it")


@case("Checking object integrity: wrong and malformed values store nothing; B22")
def wrong_checksum_headers(t):
    b = t.bucket()
    t.http.put(b, "k", b"old")
    for algorithm in wire.DIGESTS:
        name = wire.header_of(algorithm)
        for size in (10, 200000):
            body = t.bytes(size)
            t.answer(t.http.put(b, "k", body, {name: wire.checksum(algorithm, b"other")}), 400, "BadDigest", algorithm)
        for bad in ("bad", "AAAA", "!!!!", wire.checksum(algorithm, b"x") + "AAAA"):
            answer = t.http.put(b, "k", b"x", {name: bad})
            t.true(answer.status == 400 and answer.code in ("BadDigest", "InvalidRequest"), (algorithm, bad, answer.status, answer.code))
        t.answer(t.http.put(b, "new", b"x", {name: wire.checksum(algorithm, b"y")}), 400, "BadDigest", algorithm)
    t.equal(t.http.get(b, "k").body, b"old")
    t.equal(t.http.keys(b), ["k"])


@case("AWS measured: one checksum only, and the algorithm must agree; B21")
def contradicting_checksum_headers(t):
    b = t.bucket()
    crc32, sha1 = wire.checksum("CRC32", b"x"), wire.checksum("SHA1", b"x")
    for headers in ({"x-amz-checksum-crc32": crc32, "x-amz-checksum-sha1": sha1},
                    {"x-amz-checksum-crc32": crc32, "x-amz-sdk-checksum-algorithm": "SHA1"},
                    {"x-amz-sdk-checksum-algorithm": "CRC32"}, {"x-amz-checksum-md4": "AAAA"},
                    {"x-amz-checksum-crc32": crc32, "x-amz-sdk-checksum-algorithm": "FOO"}):
        t.answer(t.http.put(b, "k", b"x", headers), 400, "InvalidRequest", headers)
    t.equal(t.http.keys(b), [])
    t.answer(t.http.put(b, "k", b"x", {"x-amz-checksum-crc32": crc32, "Content-MD5": wire.md5(b"x")}), 200, what="MD5 beside one checksum")
    t.answer(t.http.put(b, "k2", b"x", {"x-amz-checksum-crc32": crc32, "Content-MD5": wire.md5(b"y")}), 400, "BadDigest")


@case("API PutObject: Content-MD5; s3-tests test_object_create_bad_md5_*; B22")
def content_md5(t):
    b = t.bucket()
    t.http.put(b, "k", b"old")
    t.answer(t.http.put(b, "k", b"new", {"Content-MD5": wire.md5(b"new")}), 200)
    for size in (3, 300000):
        body = t.bytes(size)
        t.answer(t.http.put(b, "k", body, {"Content-MD5": wire.md5(b"x")}), 400, "BadDigest")
    for bad in ("", "YWJyYWNhZGFicmE=", "x", "!" * 24, base64.b64encode(bytes(17)).decode()):
        t.answer(t.http.put(b, "k", b"x", {"Content-MD5": bad}), 400, "InvalidDigest", bad)
    t.equal(t.http.get(b, "k").body, b"new")


@case("AWS measured: without any checksum the server computes CRC64NVME")
def default_checksum(t):
    b = t.bucket()
    body = t.bytes(100000)
    t.http.put(b, "k", body)
    got = t.http.get(b, "k", {"x-amz-checksum-mode": "ENABLED"}).headers
    t.equal(got.get("x-amz-checksum-crc64nvme"), wire.checksum("CRC64NVME", body))


# ---- aws-chunked without signatures ----


def put_unsigned(t, bucket, key, body, headers=None, framed=None, trailer=None, path_query=(), chunked=False, decoded=None, size=65536):
    """One PUT in the unsigned trailer form; framed replaces the body made from body and trailer."""
    if framed is None:
        framed = wire.unsigned_chunks(body, size, trailer)
    headers = {"content-encoding": "aws-chunked", **(headers or {})}
    if decoded is not False:
        headers["x-amz-decoded-content-length"] = str(len(body) if decoded is None else decoded)
    if trailer and "x-amz-trailer" not in headers:
        headers["x-amz-trailer"] = trailer.split(":")[0]
    headers = {k: v for k, v in headers.items() if v is not None}
    if chunked:
        headers["transfer-encoding"] = "chunked"
        sent = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in wire.pieces(framed, 4000)) + b"0\r\n\r\n"
    else:
        headers["content-length"] = str(len(framed))
        sent = framed
    head, _ = wire.head(t.store, "PUT", f"/{bucket}/{key}", headers, path_query, UNSIGNED_TRAILER)
    connection = t.wire()
    try:
        connection.send(head, sent)
    except OSError:
        pass  # the answer may come, and the connection end, before all is sent
    return connection.receive("PUT")


@case("Signature calculations including trailing headers; B1, B12, B25: every algorithm, wire length or not")
def unsigned_trailers(t):
    b = t.bucket()
    for algorithm in wire.DIGESTS:
        name = wire.header_of(algorithm)
        for body in (b"", b"hello", t.bytes(8192), t.bytes(200001)):
            value = wire.checksum(algorithm, body)
            for chunked in (False, True):
                for decoded in (None, False) if chunked else (None,):
                    t.answer(put_unsigned(t, b, "k", body, trailer=f"{name}:{value}", chunked=chunked, decoded=decoded), 200,
                             what=(algorithm, len(body), chunked, decoded))
            got = t.http.get(b, "k", {"x-amz-checksum-mode": "ENABLED"})
            t.true(got.body == body, f"{algorithm} {len(body)}: framing in the object")
            t.equal((got.headers["etag"], got.headers["content-length"], got.headers.get(name), got.headers.get("content-encoding")),
                    (wire.etag(body), str(len(body)), value, None))


@case("B9, B10: trailer names in any case, the last line without its end")
def trailer_forms(t):
    b = t.bucket()
    body = t.bytes(10000)
    value = wire.checksum("CRC32", body)
    chunks = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    line = f"X-Amz-Checksum-Crc32: {value}".encode()
    for end in (b"\r\n\r\n", b"\r\n", b"\n", b"\n\r\n", b""):
        for name in ("X-Amz-Checksum-Crc32", "x-amz-checksum-crc32"):
            answer = put_unsigned(t, b, "k", body, {"x-amz-trailer": name}, chunks + line + end)
            t.answer(answer, 200, what=(end, name))
            t.equal(answer.headers.get("x-amz-checksum-crc32"), value)


@case("AWS measured: framing errors are 400 IncompleteBody and store nothing")
def framing_errors(t):
    b = t.bucket()
    body = b"x" * 10000
    good = wire.unsigned_chunks(body)
    data = b"%x\r\n%s\r\n" % (len(body), body)
    for what, framed in [
            ("bare LF after the size", good.replace(b"\r\n", b"\n", 1)), ("no CRLF after data", b"2710\r\n" + body + b"0\r\n\r\n"),
            ("size too small", b"270f\r\n" + body + b"\r\n0\r\n\r\n"), ("size too large", b"2711\r\n" + body + b"\r\n0\r\n\r\n"),
            ("no last chunk", data), ("size is no number", b"xyz\r\n" + body + b"\r\n0\r\n\r\n"), ("no size", b"\r\n" + body + b"\r\n0\r\n\r\n"),
            ("nothing after the last chunk", data + b"0\r\n"), ("no framing", body), ("empty", b""), ("a huge size", b"ffffffffffffffff\r\n" + body),
            ("a size of 17 digits", b"00000000000002710\r\n" + body + b"\r\n0\r\n\r\n"), ("negative size", b"-2710\r\n" + body + b"\r\n0\r\n\r\n"),
            ("an extension", data.replace(b"\r\n", b";a=b\r\n", 1) + b"0\r\n\r\n"), ("a long size line", b"0" * 10000 + data + b"0\r\n\r\n")]:
        t.answer(put_unsigned(t, b, "k", body, framed=framed), 400, "IncompleteBody", what)
    for decoded in (9999, 10001, 0):
        t.answer(put_unsigned(t, b, "k", body, decoded=decoded), 400, "IncompleteBody", f"decoded length {decoded}")
    for decoded in ("x", "-1", ""):
        t.answer(put_unsigned(t, b, "k", body, decoded=decoded), 411, "MissingContentLength", f"decoded length {decoded!r}")
    t.answer(put_unsigned(t, b, "k", body, decoded=False), 411, "MissingContentLength", "no decoded length")
    t.equal(t.http.keys(b), [])


@case("AWS measured: every chunk but the last has 8192 bytes or more")
def small_chunks(t):
    b = t.bucket()
    t.answer(put_unsigned(t, b, "k", b"x" * 20000, size=8191), 400, "InvalidChunkSizeError")
    t.answer(put_unsigned(t, b, "k", b"x" * 20000, size=8192), 200)


@case("AWS measured: trailer errors; B2")
def trailer_errors(t):
    b = t.bucket()
    body = b"x" * 10000
    name, value = "x-amz-checksum-crc32", wire.checksum("CRC32", body)
    for what, status, code, trailer, headers in [
            ("wrong value", 400, "BadDigest", f"{name}:{wire.checksum('CRC32', b'y')}", {}),
            ("malformed value", 400, "InvalidRequest", f"{name}:abc", {}),
            ("value of another size", 400, "InvalidRequest", f"{name}:{wire.checksum('SHA1', body)}", {}),
            ("announced, not sent", 400, "MalformedTrailerError", None, {"x-amz-trailer": name}),
            ("another than announced", 400, "MalformedTrailerError", f"{name}:{value}", {"x-amz-trailer": "x-amz-checksum-sha1"}),
            ("sent, not announced", 400, "MalformedTrailerError", f"{name}:{value}", {"x-amz-trailer": None}),
            ("no colon", 400, "MalformedTrailerError", f"{name}", {"x-amz-trailer": name}),
            ("unknown name", 400, "InvalidRequest", "x-foo:bar", {}),
            ("with a checksum header", 400, "InvalidRequest", f"{name}:{value}", {"x-amz-checksum-sha1": wire.checksum("SHA1", body)}),
            ("algorithm contradicts", 400, "InvalidRequest", f"{name}:{value}", {"x-amz-sdk-checksum-algorithm": "SHA1"})]:
        t.answer(put_unsigned(t, b, "k", body, headers, trailer=trailer), status, code, what)
    t.equal(t.http.keys(b), [])
    t.answer(put_unsigned(t, b, "k", body), 200, what="no trailer at all")


@case("B24: aws-chunked is for PutObject and UploadPart only")
def chunked_payload_elsewhere(t):
    b = t.bucket()
    for method, path, query in [("POST", f"/{b}", [("delete", "")]), ("PUT", f"/{t.name_bucket()}", []), ("GET", f"/{b}/k", []),
                                ("POST", f"/{b}/k", [("uploads", "")])]:
        body = wire.unsigned_chunks(b"<Delete/>")
        head, _ = wire.head(t.store, method, path, {"content-length": str(len(body)), "x-amz-decoded-content-length": "9"}, query,
                            UNSIGNED_TRAILER)
        t.answer(t.wire().send(head, body).receive(), 400, "InvalidRequest", (method, path, query))


@case("B4: UploadPart takes the same body forms")
def upload_part_in_chunks(t):
    b = t.bucket()
    upload = t.s3.create_multipart_upload(Bucket=b, Key="k")["UploadId"]
    bodies = [t.bytes(5 << 20), b"tail"]
    parts = []
    for number, body in enumerate(bodies, 1):
        trailer = f"x-amz-checksum-crc32c:{wire.checksum('CRC32C', body)}"
        answer = put_unsigned(t, b, "k", body, trailer=trailer, path_query=[("partNumber", str(number)), ("uploadId", upload)], chunked=number == 1)
        t.answer(answer, 200)
        parts.append({"PartNumber": number, "ETag": answer.headers["etag"]})
    t.equal([p["Size"] for p in t.s3.list_parts(Bucket=b, Key="k", UploadId=upload)["Parts"]], [len(p) for p in bodies])
    wrong = put_unsigned(t, b, "k", b"x", trailer="x-amz-checksum-crc32c:AAAAAA==", path_query=[("partNumber", "3"), ("uploadId", upload)])
    t.answer(wrong, 400, "BadDigest")
    t.s3.complete_multipart_upload(Bucket=b, Key="k", UploadId=upload, MultipartUpload={"Parts": parts})
    t.true(t.http.get(b, "k").body == b"".join(bodies), "other bytes")


# ---- aws-chunked with signatures ----


def put_signed(t, bucket, body, trailer=None, change=lambda framed: framed, size=65536, end=b"\r\n", headers=None, key="k"):
    payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("-TRAILER" if trailer else "")
    headers = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": str(len(body)), **(headers or {})}
    if trailer:
        headers["x-amz-trailer"] = trailer.split(":")[0]
    sizes = [len(p) for p in wire.pieces(body, size)] + [0]
    length = sum(n + len("%x" % n) + 17 + 64 + 2 + 2 for n in sizes)
    if trailer:
        length += len(trailer) + len(end) + len("x-amz-trailer-signature:") + 64 + 2
    headers["content-length"] = str(length)
    head, signed = wire.head(t.store, "PUT", f"/{bucket}/{key}", headers, (), payload)
    framed = wire.signed_chunks(signed, body, size, trailer, end)
    t.true(len(framed) == length, f"the test's own length: {len(framed)}, {length}")
    connection = t.wire()
    try:
        connection.send(head, change(framed))
    except OSError:
        pass
    return connection.receive("PUT")


@case("Signature calculations: transferring a payload in multiple chunks; B26: large chunks")
def signed_chunk_uploads(t):
    b = t.bucket()
    for size, chunk in [(0, 65536), (1, 65536), (65536, 65536), (200001, 65536), (200001, 8192), (17 << 20, 16 << 20)]:
        body = t.bytes(size)
        t.answer(put_signed(t, b, body, size=chunk), 200, what=(size, chunk))
        got = t.http.get(b, "k")
        t.true(got.body == body and got.headers["etag"] == wire.etag(body), f"{size} in chunks of {chunk}")
        t.true("content-encoding" not in got.headers, "aws-chunked is kept as an encoding")


@case("Signature calculations: every changed chunk is refused; B148")
def changed_signed_chunks(t):
    b = t.bucket()
    body = t.bytes(30000)

    def flip(at):
        return lambda framed: framed[:at] + bytes([framed[at] ^ 1]) + framed[at + 1:]

    for what, change in [("data", flip(1000)), ("second chunk", flip(12000)), ("last data byte", flip(-100)), ("a signature", flip(30)),
                         ("the last signature", flip(-10))]:
        answer = put_signed(t, b, body, change=change, size=10000)
        t.true(answer.status in (400, 403), (what, answer.status, answer.code))
        t.true(answer.code in ("SignatureDoesNotMatch", "IncompleteBody"), (what, answer.code))
    swapped = put_signed(t, b, body, size=10000, change=lambda f: f[10089:20178] + f[:10089] + f[20178:])
    t.answer(swapped, 403, "SignatureDoesNotMatch", "chunks swapped")
    t.equal(t.http.keys(b), [])


@case("Signature calculations including trailing headers; B2, B10, B148")
def signed_trailers(t):
    b = t.bucket()
    body = t.bytes(100000)
    for algorithm in wire.DIGESTS:
        line = f"{wire.header_of(algorithm)}:{wire.checksum(algorithm, body)}"
        for end in (b"\r\n", b"\n\r\n", b"\n"):
            t.answer(put_signed(t, b, body, line, end=end), 200, what=(algorithm, end))
        t.equal(t.http.request("HEAD", b, "k", headers={"x-amz-checksum-mode": "ENABLED"}).headers.get(wire.header_of(algorithm)),
                wire.checksum(algorithm, body))
    t.http.delete(b, "k")
    line = f"x-amz-checksum-crc32:{wire.checksum('CRC32', body)}"
    t.answer(put_signed(t, b, body, line, change=lambda f: f[:-10] + bytes([f[-10] ^ 1]) + f[-9:]), 403, "SignatureDoesNotMatch")
    wrong = f"x-amz-checksum-crc32:{wire.checksum('CRC32', b'y')}"
    t.answer(put_signed(t, b, body, wrong), 400, "BadDigest", "signed, but not the checksum of the body")
    t.answer(put_signed(t, b, body, line, change=lambda f: f.replace(line.encode(), wrong.encode())), 403, "SignatureDoesNotMatch")
    t.equal(t.http.keys(b), [])


@case("API PutObject: x-amz-content-sha256; B13, B148")
def payload_hash(t):
    b = t.bucket()
    for size in (10, 300000):
        t.answer(t.http.put(b, "k", t.bytes(size), payload_hash="0" * 64), 400, "XAmzContentSHA256Mismatch")
    for bad in ("abc", "STREAMING-FOO", "UNSIGNED", "g" * 64, ""):
        answer = t.http.put(b, "k", b"x", payload_hash=bad)
        t.true(answer.status == 400 and answer.code in ("InvalidArgument", "InvalidRequest"), (bad, answer.status, answer.code))
    t.equal(t.http.keys(b), [])
    t.answer(t.http.put(b, "k", b"x", payload_hash="UNSIGNED-PAYLOAD"), 200)
    upload = t.s3.create_multipart_upload(Bucket=b, Key="m")["UploadId"]
    part = t.http.request("PUT", b, "m", query={"partNumber": "1", "uploadId": upload}, body=b"x", payload_hash="0" * 64)
    t.answer(part, 400, "XAmzContentSHA256Mismatch", "UploadPart")
    t.answer(t.http.request("POST", b, query={"delete": ""}, body=b"<Delete><Object><Key>k</Key></Object></Delete>", payload_hash="0" * 64),
             400, "XAmzContentSHA256Mismatch", "DeleteObjects")
    t.equal(t.http.keys(b), ["k"])


@case("clients 1: boto3 with default checksums, streams and files, both checksum settings")
def boto3_uploads(t):
    import io
    b = t.bucket()
    body = t.bytes(300000)
    for options in ({}, {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}):
        s3 = t.boto(**options)
        s3.put_object(Bucket=b, Key="bytes", Body=body)
        s3.put_object(Bucket=b, Key="file", Body=io.BytesIO(body))
        s3.upload_fileobj(io.BytesIO(body * 40), b, "large")
        s3.put_object(Bucket=b, Key="empty", Body=b"")
        s3.put_object(Bucket=b, Key="none")
        for key, want in (("bytes", body), ("file", body), ("large", body * 40), ("empty", b""), ("none", b"")):
            t.true(s3.get_object(Bucket=b, Key=key)["Body"].read() == want, f"{options} {key}: other bytes")
