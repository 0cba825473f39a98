"""Many clients at once (issue 3, section 2.7)."""
import concurrent.futures
import threading

import s3lib
import wire
from suite import case

MIB = 1 << 20


def together(count, function):
    """function(number) in as many threads, started as one."""
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait()
        return function(number)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@case("Issue 3, 2.7; B111: 50 clients race If-None-Match: *, one wins", alone=True)
def one_winner(t):
    b = t.bucket()
    clients = [t.as_("main") for _ in range(50)]
    for client in clients:
        client.request("HEAD", b)
    for round_number, size in enumerate((20, 20, 20, 70000, 200000)):
        key = f"k{round_number}"

        def put(number, key=key, size=size):
            body = s3lib.describe(key, str(number), 1, size)
            return clients[number].put(b, key, body, {"If-None-Match": "*"})

        answers = together(50, put)
        statuses = sorted(a.status for a in answers)
        t.equal(statuses.count(200), 1, f"winners of {key}: {statuses}")
        t.true(set(statuses) <= {200, 409, 412}, statuses)
        winner = [i for i, a in enumerate(answers) if a.status == 200][0]
        t.equal(s3lib.undescribe(t.http.get(b, key).body), (key, str(winner), 1))


@case("Issue 3, 2.7; B112: a counter kept with If-Match equals its successes", alone=True)
def counter(t):
    b = t.bucket()
    t.http.put(b, "counter", b"0")

    def add(number):
        client, successes = t.as_("main"), 0
        for _ in range(40):
            got = client.get(b, "counter")
            body = str(int(got.body) + 1).encode()
            answer = client.put(b, "counter", body, {"If-Match": got.headers["etag"]})
            t.true(answer.status in (200, 409, 412), answer.status)
            successes += answer.status == 200
        return successes

    total = sum(together(10, add))
    t.equal(int(t.http.get(b, "counter").body), total)
    t.true(total > 0, "nobody succeeded")


@case("B112: 64 swaps with one ETag, one wins; deletes with If-Match", alone=True)
def one_swap(t):
    b = t.bucket()
    clients = [t.as_("main") for _ in range(64)]
    etag = t.http.put(b, "k", b"start").headers["etag"]

    def swap(number):
        if number % 4 == 0:
            return clients[number].request("DELETE", b, "k", headers={"If-Match": etag}), True
        return clients[number].put(b, "k", b"%d" % number, {"If-Match": etag}), False

    answers = together(64, swap)
    puts = [a.status for a, deleted in answers if not deleted]
    t.true(puts.count(200) <= 1 and set(puts) <= {200, 404, 409, 412}, sorted(puts))
    left = t.http.get(b, "k")
    t.equal(left.status, 200 if 200 in puts else 404, "what is left")


@case("Issue 3, 2.7; B110: readers of an object being overwritten see one whole body or an error", alone=True)
def whole_bodies(t):
    b = t.bucket()
    size = 30 * MIB
    bodies = [s3lib.describe("k", "w", i, size) for i in range(3)]
    etags = {wire.etag(body): body for body in bodies}
    t.http.put(b, "k", bodies[0])
    stop = threading.Event()

    def write(_):
        client = t.as_("main")
        for i in range(9):
            t.answer(client.put(b, "k", bodies[i % 3], payload_hash="UNSIGNED-PAYLOAD"), 200)
        stop.set()

    def read(number):
        client, whole, ranges = t.as_("main"), 0, 0
        while not stop.is_set():
            if number % 2:
                answer = client.get(b, "k")
                t.answer(answer, 200)
                t.true(answer.body == etags[answer.headers["etag"]], "a mixed body, or one under another's ETag")
                whole += 1
            else:
                first = (number * 7919 + ranges * 104729) % (size - 200000)
                answer = client.get(b, "k", {"Range": f"bytes={first}-{first + 199999}"})
                t.answer(answer, 206)
                t.true(answer.body == etags[answer.headers["etag"]][first:first + 200000], "a mixed range")
                ranges += 1
        return whole + ranges

    counts = together(5, lambda n: write(n) if n == 0 else read(n))
    t.true(sum(c or 0 for c in counts) > 4, counts)


@case("s3-tests test_atomic_dual_write: concurrent overwrites end as one of them, whole; B130", alone=True)
def last_writer_is_whole(t):
    b = t.bucket()

    def write(number):
        client = t.as_("main")
        return [client.put(b, "k", s3lib.describe("k", str(number), i, size)).status for i, size in enumerate((100, 40000, 300000, 100))]

    for statuses in together(32, write):
        t.true(set(statuses) <= {200, 503}, statuses)
    t.true(s3lib.undescribe(t.http.get(b, "k").body) is not None, "a mixed body")


@case("B90: Complete races Abort: one of them wins, never half", alone=True)
def complete_races_abort(t):
    b = t.bucket()
    for i in range(20):
        key = f"k{i}"
        upload = t.s3.create_multipart_upload(Bucket=b, Key=key)["UploadId"]
        etag = t.http.request("PUT", b, key, query={"partNumber": "1", "uploadId": upload}, body=b"x" * 50000).headers["etag"]
        body = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>".encode()
        first, second = t.as_("main"), t.as_("main")
        calls = [lambda f=first, k=key, u=upload, d=body: f.request("POST", b, k, query={"uploadId": u}, body=d),
                 lambda s=second, k=key, u=upload: s.request("DELETE", b, k, query={"uploadId": u})]
        complete, abort = together(2, lambda n, c=calls: c[n]())
        there = t.http.get(b, key)
        t.true((complete.status, there.status) in ((200, 200), (404, 404)), (complete.status, abort.status, there.status))
        t.true(abort.status in (204, 404), abort.status)
        t.true(there.status == 404 or there.body == b"x" * 50000, "a half object")
        t.equal(t.s3.list_multipart_uploads(Bucket=b).get("Uploads", []), [])


@case("B44: concurrent signed range reads over kept-alive connections", alone=True)
def many_range_reads(t):
    b = t.bucket()
    body = t.bytes(300000)
    t.http.put(b, "k", body)

    def read(number):
        client = t.as_("main")
        for i in range(150):
            first = (number * 1009 + i * 997) % 299000
            answer = client.get(b, "k", {"Range": f"bytes={first}-{first + 999}"})
            t.true(answer.status == 206 and answer.body == body[first:first + 1000], (answer.status, first))
        return True

    t.true(all(together(16, read)), "")


@case("s3-tests test_atomic_write_bucket_gone: the bucket goes while an upload runs")
def bucket_deleted_under_an_upload(t):
    for size in (1000, 200000):
        b = t.bucket()
        body = t.bytes(size)
        head, _ = wire.head(t.store, "PUT", f"/{b}/k", {"content-length": str(size)})
        slow = t.wire().send(head, body[:size // 2])
        t.answer(t.http.request("DELETE", b), 204)
        t.answer(slow.send(body[size // 2:]).receive("PUT"), 404, "NoSuchBucket", size)
