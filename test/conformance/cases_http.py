"""HTTP/1.1 by socket: 100-continue, keep-alive, pipelining, request smuggling, truncated uploads, virtual hosts."""
import hashlib
import time

import s3lib
import wire
from suite import case

# ---- Expect: 100-continue ----


@case("RFC 9110 10.1.1: 100 when the body is wanted, also an empty one; B146")
def continue_is_sent(t):
    b = t.bucket()
    for size in (0, 5, 100000):
        body = t.bytes(size)
        head, _ = wire.head(t.store, "PUT", f"/{b}/k", {"content-length": str(size), "expect": "100-continue"})
        connection = t.wire().send(head)
        t.equal(connection.interim(), 100, size)
        t.answer(connection.send(body).receive("PUT"), 200, what=size)
        head, _ = wire.head(t.store, "GET", f"/{b}/k")
        t.true(connection.send(head).receive().body == body, "the connection is usable afterwards")


@case("s3-tests test_100_continue: a refused upload gets its final answer without 100")
def no_continue_before_a_refusal(t):
    b = t.bucket()
    refused = [(wire.head(t.store, "PUT", f"/{b}/k", {"content-length": "5", "expect": "100-continue"}, signed=False)[0], 403),
               (wire.head(t.store, "PUT", "/no-such-bucket-here/k", {"content-length": "5", "expect": "100-continue"})[0], 404),
               (wire.head(t.store, "PUT", f"/{b}/k", {"content-length": "5", "expect": "100-continue", "content-md5": "x"})[0], 400),
               (wire.head(t.store, "PUT", f"/{b}/k", {"content-length": str(6 << 30), "expect": "100-continue"})[0], 400),
               (wire.head(t.store, "PUT", f"/{b}/{'k' * 1025}", {"content-length": "5", "expect": "100-continue"})[0], 400)]
    for head, status in refused:
        connection = t.wire().send(head)
        t.answer(connection.receive("PUT"), status)


@case("s3-tests test_object_create_bad_expect_*: other or empty expectations are ignored")
def other_expectations(t):
    b = t.bucket()
    for value in ("", "200-ok", "foo"):
        head, _ = wire.head(t.store, "PUT", f"/{b}/k", {"content-length": "1"}, extra=f"expect: {value}\r\n")
        t.answer(t.wire().send(head, b"x").receive("PUT"), 200, what=value)


@case("RFC 9110 10.1.1: a client that does not wait")
def body_sent_at_once(t):
    b = t.bucket()
    head, _ = wire.head(t.store, "PUT", f"/{b}/k", {"content-length": "5", "expect": "100-continue"})
    connection = t.wire().send(head, b"hello")
    reply = connection.receive("PUT")  # http.client skips a 100
    t.answer(reply, 200)
    t.equal(t.http.get(b, "k").body, b"hello")


# ---- keep-alive ----


@case("RFC 9112 9.3: one connection, many requests, errors among them; B82: 304 keeps it usable")
def keep_alive(t):
    b = t.bucket()
    etag = t.http.put(b, "k", b"0123456789").headers["etag"]
    connection = t.wire()
    for method, path, headers, status, body in [
            ("GET", f"/{b}/k", {}, 200, b"0123456789"), ("GET", f"/{b}/missing", {}, 404, None), ("HEAD", f"/{b}/k", {}, 200, b""),
            ("HEAD", f"/{b}/missing", {}, 404, b""), ("GET", f"/{b}/k", {"if-none-match": etag}, 304, b""),
            ("GET", f"/{b}/k", {"range": "bytes=2-3"}, 206, b"23"), ("DELETE", f"/{b}/k", {}, 204, b""), ("GET", f"/{b}", {}, 200, None)]:
        head, _ = wire.head(t.store, method, path, headers)
        answer = t.answer(connection.send(head).receive(method), status, what=(method, path))
        t.true(not answer.will_close, f"{method} {path} ends the connection")
        t.true(body is None or answer.body == body, (method, path, answer.body))


@case("RFC 9112 9.3.2: pipelined requests are answered in order")
def pipelining(t):
    b = t.bucket()
    wanted, sent = [], b""
    for i in range(20):
        body = t.bytes(i * 700)
        head, _ = wire.head(t.store, "PUT", f"/{b}/k{i}", {"content-length": str(len(body))})
        sent += head + body
        wanted.append(("PUT", b""))
        head, _ = wire.head(t.store, "GET", f"/{b}/k{i}")
        sent += head
        wanted.append(("GET", body))
    connection = t.wire().send(sent)
    for number, (method, body) in enumerate(wanted):
        answer = t.answer(connection.receive(method), 200, what=f"request {number}")
        t.true(answer.body == body, f"request {number}: other bytes")


@case("RFC 9112 9.6: Connection: close, HTTP/1.0")
def closing(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    head, _ = wire.head(t.store, "GET", f"/{b}/k", extra="connection: close\r\n")
    connection = t.wire().send(head)
    answer = t.answer(connection.receive(), 200)
    t.true(answer.headers.get("connection", "").lower() == "close" and connection.closed(), "stays open")
    head, _ = wire.head(t.store, "GET", f"/{b}/k")
    connection = t.wire().send(head.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
    t.answer(connection.receive(), 200)
    t.true(connection.closed(), "HTTP/1.0 stays open")


@case("RFC 9112: a request in pieces of any size")
def requests_in_pieces(t):
    b = t.bucket()
    body = t.bytes(50)
    head, _ = wire.head(t.store, "PUT", f"/{b}/k", {"content-length": "50"})
    for step in (1, 3, 50):
        connection = t.wire()
        for piece in wire.pieces(head + body, step):
            connection.send(piece)
        t.answer(connection.receive("PUT"), 200, what=step)
    t.equal(t.http.get(b, "k").body, body)


# ---- smuggling ----

SMUGGLING = [
    ("both lengths", "content-length: 5\r\ntransfer-encoding: chunked\r\n", b"0\r\n\r\n"),
    ("both, other order", "transfer-encoding: chunked\r\ncontent-length: 5\r\n", b"0\r\n\r\n"),
    ("two lengths", "content-length: 5\r\ncontent-length: 6\r\n", b"hello!"),
    ("two equal lengths", "content-length: 5\r\ncontent-length: 5\r\n", b"hello"),
    ("a list of lengths", "content-length: 5, 5\r\n", b"hello"),
    ("signed length", "content-length: +5\r\n", b"hello"),
    ("negative length", "content-length: -1\r\n", b""),
    ("hexadecimal length", "content-length: 0x5\r\n", b"hello"),
    ("empty length", "content-length: \r\n", b""),
    ("huge length", "content-length: 99999999999999999999\r\n", b""),
    ("space before the colon", "content-length : 5\r\n", b"hello"),
    ("folded header", "content-length: 5\r\nx-a: b\r\n c\r\n", b"hello"),
    ("bare LF", "content-length: 5\nx-a: b\r\n", b"hello"),
    ("bare CR", "content-length: 5\r\nx-a: b\rc\r\n", b"hello"),
    ("NUL in a value", "content-length: 5\r\nx-a: b\0c\r\n", b"hello"),
    ("no name", "content-length: 5\r\n: b\r\n", b"hello"),
    ("no colon", "content-length: 5\r\nfoo\r\n", b"hello"),
    ("two codings", "transfer-encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    ("chunked twice", "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", b"0\r\n\r\n"),
    ("chunked, chunked", "transfer-encoding: chunked, chunked\r\n", b"0\r\n\r\n"),
    ("identity", "transfer-encoding: identity\r\ncontent-length: 5\r\n", b"hello"),
    ("xchunked", "transfer-encoding: xchunked\r\n", b"0\r\n\r\n"),
    ("quoted chunked", "transfer-encoding: \"chunked\"\r\n", b"0\r\n\r\n"),
    ("a second host", "content-length: 5\r\nhost: other\r\n", b"hello"),
]


@case("RFC 9112 6.3, 11.2: ambiguous framing is 400 (a coding 501) and ends the connection", alone=True)
def smuggling(t):
    b = t.bucket()
    t.http.put(b, "k", b"kept")
    victim, _ = wire.head(t.store, "DELETE", f"/{b}/k")
    for what, lines, body in SMUGGLING:
        head, _ = wire.head(t.store, "PUT", f"/{b}/new", extra=lines)
        connection = t.wire().send(head, body, victim)
        answer = connection.receive("PUT")
        t.true(answer.status in (400, 501), f"{what}: {answer.status}")
        t.true(connection.closed(), f"{what}: the connection stays open")
        t.equal(t.http.get(b, "k").body, b"kept", what)
    t.equal(t.http.keys(b), ["k"])


@case("RFC 9112 3: malformed request lines")
def request_lines(t):
    for line in (b"GET  / HTTP/1.1\r\n", b"GET /\r\n", b"GET / HTTP/1.1 x\r\n", b"GET / http/1.1\r\n", b" GET / HTTP/1.1\r\n", b"G@T / HTTP/1.1\r\n",
                 b"GET /\x01 HTTP/1.1\r\n", b"GET /\xe9 HTTP/1.1\r\n", b"GET / HTTP/1.1\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", b"GET foo HTTP/1.1\r\n"):
        connection = t.wire().send(line, b"host: localhost\r\n\r\n")
        answer = connection.receive()
        t.true(answer.status == 400 and connection.closed(), (line, answer.status))
    connection = t.wire().send(b"GET / HTTP/2.0\r\nhost: localhost\r\n\r\n")
    t.true(connection.receive().status in (400, 505), "HTTP/2.0")
    t.answer(t.wire().send(b"GET / HTTP/1.1\r\n\r\n").receive(), 400, what="no host")
    t.answer(t.wire().send(b"\r\nGET / HTTP/1.1\r\nhost: localhost\r\n\r\n").receive(), 403, what="one empty line before is allowed")


@case("RFC 9112 7.1: malformed chunked coding")
def malformed_chunks(t):
    b = t.bucket()
    for framed in (b"5\nhello\r\n0\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"x\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"\r\nhello\r\n0\r\n\r\n",
                   b"0x5\r\nhello\r\n0\r\n\r\n", b"5\r\nhelloX\r\n0\r\n\r\n", b"fffffffffffffffff\r\nhello", b"5;\rx\r\nhello\r\n0\r\n\r\n",
                   b"5\r\nhello\r\n0\r\nbad trailer\r\n\r\n"):
        head, _ = wire.head(t.store, "PUT", f"/{b}/k", {"transfer-encoding": "chunked"})
        connection = t.wire().send(head, framed)
        answer = connection.receive("PUT")
        t.true(answer.status == 400, (framed, answer.status))
        t.true(connection.closed(), f"{framed}: the connection stays open")
    t.equal(t.http.keys(b), [])


@case("Issue 3: limits on heads")
def large_heads(t):
    b = t.bucket()
    head, _ = wire.head(t.store, "GET", f"/{b}", extra="x-a: " + "b" * 7000 + "\r\n")
    t.answer(t.wire().send(head).receive(), 200, what="a head of 7 kB")
    for extra in ("x-a: " + "b" * 200000 + "\r\n", "x-a: b\r\n" * 20000):
        connection = t.wire()
        head, _ = wire.head(t.store, "GET", f"/{b}", extra=extra)
        try:
            connection.send(head)
        except OSError:
            pass
        try:
            status = connection.receive().status
        except OSError:
            status = 431  # the answer may be lost with the connection
        t.true(status in (400, 431), status)


# ---- truncation ----


@case("Issue 3: a truncated upload leaves no object", alone=True)
def truncated_uploads(t):
    b = t.bucket()
    t.http.put(b, "old", b"old")
    forms = []
    for size in (1000, 50000, 300000):
        body = t.bytes(size)
        head, _ = wire.head(t.store, "PUT", f"/{b}/KEY", {"content-length": str(size)}, payload_hash=hashlib.sha256(body).hexdigest())
        forms.append((head, body))
        head, _ = wire.head(t.store, "PUT", f"/{b}/KEY", {"transfer-encoding": "chunked"})
        forms.append((head, b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in wire.pieces(body, 9999)) + b"0\r\n\r\n"))
        framed = wire.unsigned_chunks(body, 8192, f"x-amz-checksum-crc32:{wire.checksum('CRC32', body)}")
        head, _ = wire.head(t.store, "PUT", f"/{b}/KEY", {
            "content-length": str(len(framed)), "x-amz-decoded-content-length": str(size), "x-amz-trailer": "x-amz-checksum-crc32"},
            payload_hash="STREAMING-UNSIGNED-PAYLOAD-TRAILER")
        forms.append((head, framed))
    for key in ("new", "old"):
        for head, body in forms:
            # Signed for the placeholder's path: sign again for this key by asking for the same head with another path.
            lines = head.split(b"\r\n")
            names = dict(line.split(b": ", 1) for line in lines[1:] if b": " in line)
            headers = {k.decode(): v.decode() for k, v in names.items() if k.lower() not in (b"authorization", b"x-amz-date", b"x-amz-content-sha256", b"host")}
            head, _ = wire.head(t.store, "PUT", f"/{b}/{key}", headers, payload_hash=names[b"x-amz-content-sha256"].decode())
            cuts = {0, 1, len(body) // 2, len(body) - 1, len(body) - 2, len(body) - 5} | {t.random.randrange(len(body)) for _ in range(8)}
            for cut in cuts:
                connection = wire.Wire(t.store)
                connection.send(head, body[:cut])
                connection.close()
    for _ in range(50):
        if "new" not in t.http.keys(b):
            break
        time.sleep(0.02)
    time.sleep(0.2)
    t.equal(t.http.keys(b), ["old"])
    t.equal(t.http.get(b, "old").body, b"old")
    upload = t.s3.create_multipart_upload(Bucket=b, Key="m")["UploadId"]
    for cut in (0, 1, 5000, 9999):
        head, _ = wire.head(t.store, "PUT", f"/{b}/m", {"content-length": "10000"}, [("partNumber", "1"), ("uploadId", upload)])
        connection = wire.Wire(t.store)
        connection.send(head, bytes(cut))
        connection.close()
    time.sleep(0.2)
    t.equal(t.s3.list_parts(Bucket=b, Key="m", UploadId=upload).get("Parts", []), [])


@case("RFC 9112 9.6: a large body that is refused at once; the client reads why, not a broken pipe")
def early_answer_to_a_large_body(t):
    body = bytes(8 << 20)
    for _ in range(3):
        client = t.as_("main")
        t.answer(client.put("no-such-bucket-here", "k", body, payload_hash="UNSIGNED-PAYLOAD"), 404, "NoSuchBucket")


@case("RFC 9112 9.3: what follows an early refusal is not taken for a request")
def body_after_a_refusal(t):
    b = t.bucket()
    t.http.put(b, "k", b"kept")
    evil, _ = wire.head(t.store, "DELETE", f"/{b}/k")
    for size in (len(evil), 5 << 20):
        body = (evil * (size // len(evil) + 1))[:size]
        head, _ = wire.head(t.store, "PUT", "/no-such-bucket-here/k", {"content-length": str(size)})
        connection = t.wire()
        try:
            connection.send(head, body)
            t.answer(connection.receive("PUT"), 404, "NoSuchBucket")
        except OSError:
            pass  # reset while we were sending: refused as well
        t.equal(t.http.get(b, "k").body, b"kept", size)


# ---- virtual hosts ----


@case("Virtual hosting of buckets; B41: with a root domain both styles work", alone=True)
def virtual_hosts(t):
    with s3lib.Store(tls=t.store.tls, bucket="demo", env={"HAYLOFT_S3_ROOT_DOMAIN": ".s3.test"}) as store:
        client = s3lib.Client(store)
        client.request("PUT", "dotted.bucket.name")
        for bucket in ("demo", "dotted.bucket.name"):
            for host in (f"{bucket}.s3.test", f"{bucket}.s3.test:{store.port}", f"{bucket.upper()}.S3.TEST" if bucket == "demo" else f"{bucket}.s3.test"):
                head, _ = wire.head(store, "PUT", "/dir/k%20k", {"content-length": "1"}, host=host)
                connection = wire.Wire(store)
                t.open.append(connection)
                t.answer(connection.send(head, b"x").receive("PUT"), 200, what=host)
                head, _ = wire.head(store, "GET", "/dir/k%20k", host=host)
                t.equal(connection.send(head).receive().body, b"x", host)
                t.equal(client.get(bucket, "dir/k k").body, b"x", "the same by path")
                head, _ = wire.head(store, "GET", "/", host=host, query=[("list-type", "2")])
                t.true(b"<Key>dir/k k</Key>" in connection.send(head).receive().body, "a listing")
                client.delete(bucket, "dir/k k")
        head, _ = wire.head(store, "GET", "/", host="s3.test")
        answer = wire.Wire(store).send(head).receive()
        t.true(b"<ListAllMyBucketsResult" in answer.body, answer.body)
        head, _ = wire.head(store, "GET", "/demo", host="example.org")
        t.answer(wire.Wire(store).send(head).receive(), 200, what="any other host is path style")
        head, _ = wire.head(store, "GET", "/", host="no-such-bucket-here.s3.test")
        t.answer(wire.Wire(store).send(head).receive(), 404, "NoSuchBucket")
