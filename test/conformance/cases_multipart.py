"""Multipart uploads, GetObjectAttributes."""
import hashlib

import wire
from suite import case

MIB = 1 << 20


class Upload:
    def __init__(self, t, bucket, key="k", **options):
        self.t, self.bucket, self.key, self.parts = t, bucket, key, []
        self.created = t.s3.create_multipart_upload(Bucket=bucket, Key=key, **options)
        self.id = self.created["UploadId"]
        self.named = dict(Bucket=bucket, Key=key, UploadId=self.id)

    def part(self, number, body, algorithm=None, **options):
        """algorithm: a checksum computed here, not by the SDK."""
        if algorithm:
            options["Checksum" + algorithm] = wire.checksum(algorithm, body)
        answer = self.t.s3.upload_part(**self.named, PartNumber=number, Body=body, **options)
        part = {"PartNumber": number, "ETag": answer["ETag"]}
        part.update({k: v for k, v in answer.items() if k.startswith("Checksum")})
        self.parts.append(part)
        return answer

    def complete(self, parts=None, **options):
        parts = self.parts if parts is None else parts
        return self.t.s3.complete_multipart_upload(**self.named, MultipartUpload={"Parts": parts}, **options)

    def refuse(self, status, code, parts=None, **options):
        parts = self.parts if parts is None else parts
        return self.t.fails(status, code, self.t.s3.complete_multipart_upload, **self.named, MultipartUpload={"Parts": parts}, **options)


def multipart_etag(parts):
    joined = b"".join(hashlib.md5(p).digest() for p in parts)
    return f'"{hashlib.md5(joined).hexdigest()}-{len(parts)}"'


@case("API CompleteMultipartUpload; s3-tests test_multipart_upload; B94")
def multipart_upload(t):
    b = t.bucket()
    up = Upload(t, b, "dir/é k", Metadata={"a": "1"}, ContentType="foo/bar", CacheControl="no-store")
    bodies = [t.bytes(5 * MIB), t.bytes(5 * MIB + 1), t.bytes(12345)]
    t.fails(404, "NoSuchKey", t.s3.get_object, Bucket=b, Key=up.key)
    for number, body in enumerate(bodies, 1):
        t.equal(up.part(number, body)["ETag"], wire.etag(body))
    t.equal(t.http.keys(b), [])
    done = up.complete()
    t.equal((done["Bucket"], done["Key"], done["ETag"]), (b, up.key, multipart_etag(bodies)))
    t.equal(done["Location"], f"{t.store.url}/{b}/dir/%C3%A9%20k")
    got = t.s3.get_object(Bucket=b, Key=up.key)
    t.true(got["Body"].read() == b"".join(bodies), "other bytes")
    t.equal((got["ETag"], got["Metadata"], got["ContentType"], got["CacheControl"], got["ContentLength"]),
            (multipart_etag(bodies), {"a": "1"}, "foo/bar", "no-store", sum(map(len, bodies))))
    whole = b"".join(bodies)
    for first, last in ((5 * MIB - 5, 5 * MIB + 5), (10 * MIB - 3, 10 * MIB + 20), (0, 11 * MIB), (len(whole) - 7, len(whole) - 1)):
        got = t.http.get(b, up.key, {"Range": f"bytes={first}-{last}"})
        t.true(got.body == whole[first:last + 1], f"range {first}-{last}")


@case("s3-tests test_multipart_upload: Complete is idempotent")
def complete_again(t):
    b = t.bucket()
    up = Upload(t, b, ChecksumAlgorithm="SHA256")
    up.part(1, b"x" * 100, ChecksumAlgorithm="SHA256")
    first = up.complete()
    second = up.complete()
    t.equal([second.get(k) for k in ("ETag", "ChecksumSHA256", "ChecksumType", "Location")],
            [first.get(k) for k in ("ETag", "ChecksumSHA256", "ChecksumType", "Location")])
    t.fails(404, "NoSuchUpload", t.s3.upload_part, **up.named, PartNumber=1, Body=b"y")
    t.fails(404, "NoSuchUpload", t.s3.list_parts, **up.named)


@case("API CompleteMultipartUpload: errors; B93")
def complete_errors(t):
    b = t.bucket()
    up = Upload(t, b)
    up.part(1, b"small")
    up.part(2, b"last")
    up.refuse(400, "EntityTooSmall")
    up.refuse(400, "InvalidPartOrder", [up.parts[1], up.parts[0]])
    up.refuse(400, "InvalidPart", [{"PartNumber": 3, "ETag": up.parts[1]["ETag"]}])
    up.refuse(400, "InvalidPart", [{"PartNumber": 1, "ETag": '"00000000000000000000000000000000"'}])
    up.refuse(400, "InvalidArgument", [{"PartNumber": 0, "ETag": "x"}])
    up.refuse(400, "InvalidArgument", [{"PartNumber": 10001, "ETag": "x"}])

    def post(body):
        return t.http.request("POST", b, "k", query={"uploadId": up.id}, body=body)

    for body in (b"", b"<CompleteMultipartUpload></CompleteMultipartUpload>", b"<CompleteMultipartUpload>", b"<Foo/>", b"x",
                 b"<CompleteMultipartUpload><Part><PartNumber>x</PartNumber></Part></CompleteMultipartUpload>"):
        t.answer(post(body), 400, "MalformedXML", body)
    t.fails(404, "NoSuchUpload", t.s3.complete_multipart_upload, Bucket=b, Key="other", UploadId=up.id,
            MultipartUpload={"Parts": up.parts[:1]})
    for bad in ("x", "0" * 32, "~", "a" * 200):
        t.fails(404, "NoSuchUpload", t.s3.complete_multipart_upload, Bucket=b, Key="k", UploadId=bad,
                MultipartUpload={"Parts": up.parts[:1]})
    t.equal(t.http.keys(b), [])
    t.equal(up.complete(up.parts[1:])["ETag"], multipart_etag([b"last"]))
    t.equal(t.http.get(b, "k").body, b"last")


@case("B89: ETags in the request with quotes, without, as entities")
def complete_etag_forms(t):
    b = t.bucket()
    for form in ("{0}", "\"{0}\"", "&quot;{0}&quot;", "&#34;{0}&#34;"):
        up = Upload(t, b)
        up.part(1, b"x")
        tag = form.format(hashlib.md5(b"x").hexdigest())
        body = ('<?xml version="1.0" encoding="UTF-8"?>\n<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">\n'
                f'<Part><ETag>{tag}</ETag><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>').encode()
        t.answer(t.http.request("POST", b, "k", query={"uploadId": up.id}, body=body), 200, what=form)


@case("s3-tests test_multipart_resend_first_finishes_last: the last entry of a number wins")
def the_same_number_twice(t):
    b = t.bucket()
    up = Upload(t, b)
    up.part(1, b"first")
    up.part(1, b"second")
    up.complete()
    t.equal(t.http.get(b, "k").body, b"second")
    up = Upload(t, b, "again")
    up.part(1, b"first")
    up.part(1, b"second")
    up.refuse(400, "InvalidPart", up.parts[:1])
    up.complete(up.parts[1:])
    t.equal(t.http.get(b, "again").body, b"second")


@case("API CompleteMultipartUpload: any rising numbers; unnamed parts are dropped; B90")
def numbers_with_gaps(t):
    b = t.bucket()
    up = Upload(t, b)
    bodies = {3: t.bytes(5 * MIB), 500: t.bytes(10), 10000: t.bytes(7), 7: t.bytes(5 * MIB)}
    for number in (10000, 3, 500, 7):
        up.part(number, bodies[number])
    chosen = sorted((p for p in up.parts if p["PartNumber"] != 500), key=lambda p: p["PartNumber"])
    done = up.complete(chosen)
    whole = bodies[3] + bodies[7] + bodies[10000]
    t.equal(done["ETag"], multipart_etag([bodies[3], bodies[7], bodies[10000]]))
    t.true(t.http.get(b, "k").body == whole, "other bytes")
    got = t.s3.get_object(Bucket=b, Key="k", PartNumber=7)
    t.true(got["Body"].read() == bodies[7], "part 7")


@case("API GetObject, HeadObject partNumber: the object's ETag, its part's bytes, the count; B77")
def part_reads(t):
    b = t.bucket()
    up = Upload(t, b, ChecksumAlgorithm="CRC32C")
    bodies = [t.bytes(5 * MIB), t.bytes(100)]
    for number, body in enumerate(bodies, 1):
        up.part(number, body, "CRC32C")
    etag = up.complete()["ETag"]
    off, size = 0, sum(map(len, bodies))
    for number, body in enumerate(bodies, 1):
        for method in ("GET", "HEAD"):
            got = t.http.request(method, b, "k", query={"partNumber": str(number)}, headers={"x-amz-checksum-mode": "ENABLED"})
            t.answer(got, 206)
            t.true(method == "HEAD" or got.body == body, f"part {number}")
            t.equal([got.headers.get(h) for h in ("etag", "content-length", "content-range", "x-amz-mp-parts-count",
                                                  "x-amz-checksum-crc32c", "x-amz-checksum-type")],
                    [etag, str(len(body)), f"bytes {off}-{off + len(body) - 1}/{size}", "2", wire.checksum("CRC32C", body), "COMPOSITE"])
        off += len(body)
    t.answer(t.http.get(b, "k", query={"partNumber": "3"}), 400, "InvalidPart")
    t.answer(t.http.get(b, "k", {"Range": "bytes=0-1"}, {"partNumber": "1"}), 400, "InvalidRequest")
    one = Upload(t, b, "one")
    one.part(1, b"x")
    one.complete()
    t.equal(t.s3.head_object(Bucket=b, Key="one", PartNumber=1)["PartsCount"], 1)


@case("s3-tests test_multipart_upload_overwrite_existing_object")
def the_old_object_stays_until_complete(t):
    b = t.bucket()
    t.http.put(b, "k", b"old")
    up = Upload(t, b)
    up.part(1, b"new")
    t.equal(t.http.get(b, "k").body, b"old")
    up.complete()
    t.equal(t.http.get(b, "k").body, b"new")


@case("API AbortMultipartUpload; s3-tests test_abort_multipart_upload*")
def abort(t):
    b = t.bucket()
    up = Upload(t, b)
    up.part(1, b"x" * 100000)
    t.answer(t.http.request("DELETE", b, "other", query={"uploadId": up.id}), 404, "NoSuchUpload")
    t.answer(t.http.request("DELETE", b, "k", query={"uploadId": up.id}), 204)
    t.answer(t.http.request("DELETE", b, "k", query={"uploadId": up.id}), 404, "NoSuchUpload")
    up.refuse(404, "NoSuchUpload")
    t.fails(404, "NoSuchUpload", t.s3.upload_part, **up.named, PartNumber=2, Body=b"x")
    t.equal(t.s3.list_multipart_uploads(Bucket=b).get("Uploads", []), [])
    t.answer(t.http.request("DELETE", b), 204, what="an aborted upload leaves nothing behind")


@case("bucket cleanup-incomplete-uploads")
def cleanup_of_unfinished_uploads(t):
    b = t.bucket()
    up = Upload(t, b)
    up.part(1, b"x")
    t.store.cli("bucket", "cleanup-incomplete-uploads", "--older-than", "0s", b)
    t.equal(t.s3.list_multipart_uploads(Bucket=b).get("Uploads", []), [])


@case("API UploadPart: part numbers; B88")
def part_numbers(t):
    b = t.bucket()
    up = Upload(t, b)
    for number in ("0", "10001", "-1", "x", ""):
        t.answer(t.http.request("PUT", b, "k", query={"partNumber": number, "uploadId": up.id}, body=b"x"), 400, "InvalidArgument", number)
    t.answer(t.http.request("PUT", b, "k", query={"partNumber": "10000", "uploadId": up.id}, body=b"x"), 200)
    t.answer(t.http.request("PUT", b, "k", query={"partNumber": "1", "uploadId": "0" * 32}, body=b"x"), 404, "NoSuchUpload")


@case("API ListParts; B96, B70: client-visible sizes, rising markers")
def list_parts(t):
    b = t.bucket()
    up = Upload(t, b)
    empty = t.s3.list_parts(**up.named)
    t.equal((empty.get("Parts"), empty["IsTruncated"]), (None, False))
    sizes = {1: 10, 2: 70000, 5: 0, 9: 33, 100: 5}
    for number, size in sizes.items():
        up.part(number, b"x" * size)
    for page_size in (1, 2, 1000):
        seen, marker = [], 0
        while True:
            page = t.s3.list_parts(**up.named, MaxParts=page_size, PartNumberMarker=marker)
            seen += [(p["PartNumber"], p["Size"], p["ETag"]) for p in page.get("Parts", [])]
            t.equal(page["MaxParts"], page_size)
            if not page["IsTruncated"]:
                break
            t.true(page["NextPartNumberMarker"] > marker, "the marker moves up")
            marker = page["NextPartNumberMarker"]
        t.equal(seen, [(n, s, wire.etag(b"x" * s)) for n, s in sizes.items()], f"pages of {page_size}")
    page = t.s3.list_parts(**up.named)
    me = t.account("main").key
    t.equal((page["Owner"]["ID"], page["Initiator"]["ID"], page["StorageClass"], page["Key"], page["UploadId"]), (me, me, "STANDARD", "k", up.id))
    zero = t.s3.list_parts(**up.named, MaxParts=0)
    t.equal((zero.get("Parts"), zero["IsTruncated"]), (None, False))
    for name in ("max-parts", "part-number-marker"):
        for bad in ("x", "-1", "2147483648"):
            t.answer(t.http.request("GET", b, "k", query={"uploadId": up.id, name: bad}), 400, "InvalidArgument", f"{name}={bad}")


@case("API ListMultipartUploads; B69")
def list_uploads(t):
    b, other = t.bucket(), t.bucket()
    Upload(t, other, "elsewhere")
    keys = ["a", "a", "b/1", "b/2", "c", "é", "a b+"]
    ups = [(Upload(t, b, key), key) for key in keys]
    want = sorted(((key, up.id) for up, key in ups), key=lambda k: k[0].encode())
    for size in (1, 2, 3, 1000):
        seen, more = [], {}
        while True:
            page = t.s3.list_multipart_uploads(Bucket=b, MaxUploads=size, **more)
            seen += [(u["Key"], u["UploadId"]) for u in page.get("Uploads", [])]
            if not page["IsTruncated"]:
                break
            more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
        t.equal(sorted(seen), sorted(want), f"pages of {size}")
        t.equal([k for k, _ in seen], [k for k, _ in want], f"order, pages of {size}")
    page = t.s3.list_multipart_uploads(Bucket=b, Delimiter="/")
    t.equal(([u["Key"] for u in page["Uploads"]], [p["Prefix"] for p in page["CommonPrefixes"]]), (["a", "a", "a b+", "c", "é"], ["b/"]))
    t.equal([u["Key"] for u in t.s3.list_multipart_uploads(Bucket=b, Prefix="b/")["Uploads"]], ["b/1", "b/2"])
    t.equal([u["Key"] for u in t.s3.list_multipart_uploads(Bucket=b, KeyMarker="aa")["Uploads"]], ["b/1", "b/2", "c", "é"])
    upload = t.s3.list_multipart_uploads(Bucket=b)["Uploads"][0]
    t.equal((upload["Initiator"]["ID"], upload["Owner"]["ID"], upload["StorageClass"]), (t.account("main").key,) * 2 + ("STANDARD",))
    t.answer(t.http.request("GET", b, query={"uploads": "", "key-marker": "a", "upload-id-marker": "x"}), 400, "InvalidArgument")
    t.answer(t.http.request("GET", b, query={"uploads": "", "upload-id-marker": "x"}), 200, what="ignored without a key marker")
    for bad in ("x", "-1"):
        t.answer(t.http.request("GET", b, query={"uploads": "", "max-uploads": bad}), 400, "InvalidArgument")


@case("API CreateMultipartUpload: uploads= equals uploads; a body is ignored; B109")
def create_forms(t):
    b = t.bucket()
    for query, body in (("uploads", b""), ("uploads=", b""), ("uploads", b"ignored")):
        head, headers = wire.head(t.store, "POST", f"/{b}/k", {"content-length": str(len(body))}, [("uploads", "")])
        head = head.replace(b"?uploads", b"?" + query.encode(), 1)
        t.answer(t.wire().send(head, body).receive("POST"), 200, what=query)


# ---- checksums ----


@case("API CreateMultipartUpload: checksum algorithm and type; B17")
def create_checksum_combinations(t):
    b = t.bucket()
    for algorithm in wire.DIGESTS:
        for kind in (None, "COMPOSITE", "FULL_OBJECT"):
            options = {"ChecksumAlgorithm": algorithm, **({"ChecksumType": kind} if kind else {})}
            wrong = (algorithm.startswith("SHA") and kind == "FULL_OBJECT") or (algorithm == "CRC64NVME" and kind == "COMPOSITE")
            if wrong:
                t.fails(400, "InvalidRequest", t.s3.create_multipart_upload, Bucket=b, Key="k", **options)
                continue
            answer = t.s3.create_multipart_upload(Bucket=b, Key="k", **options)
            default = "FULL_OBJECT" if algorithm == "CRC64NVME" else "COMPOSITE"
            t.equal((answer["ChecksumAlgorithm"], answer["ChecksumType"]), (algorithm, kind or default))
    t.answer(t.http.request("POST", b, "k", query={"uploads": ""}, headers={"x-amz-checksum-type": "COMPOSITE"}), 400, "InvalidRequest")
    t.answer(t.http.request("POST", b, "k", query={"uploads": ""}, headers={"x-amz-checksum-algorithm": "FOO"}), 400, "InvalidRequest")


@case("Checking object integrity: composite and full-object checksums; B18; s3-tests test_multipart_use_cksum_helper_*")
def multipart_checksums(t):
    b = t.bucket()
    bodies = [t.bytes(5 * MIB), t.bytes(5 * MIB + 11), t.bytes(99)]
    whole = b"".join(bodies)
    for algorithm, kind in [("CRC32", "COMPOSITE"), ("CRC32C", "COMPOSITE"), ("SHA1", "COMPOSITE"), ("SHA256", "COMPOSITE"),
                            ("CRC32", "FULL_OBJECT"), ("CRC64NVME", "FULL_OBJECT")]:
        field = "Checksum" + algorithm
        key = f"{algorithm}-{kind}"
        up = Upload(t, b, key, ChecksumAlgorithm=algorithm, ChecksumType=kind)
        for number, body in enumerate(bodies, 1):
            t.equal(up.part(number, body, algorithm)[field], wire.checksum(algorithm, body), key)
        listed = t.s3.list_parts(**up.named)
        t.equal((listed["ChecksumAlgorithm"], listed["ChecksumType"]), (algorithm, kind))
        t.equal([p[field] for p in listed["Parts"]], [wire.checksum(algorithm, body) for body in bodies], key)
        want = wire.composite(algorithm, bodies) if kind == "COMPOSITE" else wire.checksum(algorithm, whole)
        wrong = wire.composite(algorithm, bodies[:2] + [b"x"]) if kind == "COMPOSITE" else wire.checksum(algorithm, b"x")
        up.refuse(400, "BadDigest", ChecksumType=kind, **{field: wrong})
        done = up.complete(ChecksumType=kind, **{field: want})
        t.equal((done[field], done["ChecksumType"]), (want, kind), key)
        head = t.s3.head_object(Bucket=b, Key=key, ChecksumMode="ENABLED")
        t.equal((head[field], head["ChecksumType"]), (want, kind), key)
        t.true(field not in t.s3.head_object(Bucket=b, Key=key), "a checksum unasked")


@case("API UploadPart: checksums must fit the upload; AWS measured")
def part_checksums_must_fit(t):
    b = t.bucket()
    quiet = t.boto(request_checksum_calculation="when_required")
    composite = Upload(t, b, ChecksumAlgorithm="CRC32C")
    t.fails(400, "InvalidRequest", quiet.upload_part, **composite.named, PartNumber=1, Body=b"x")
    t.fails(400, "InvalidRequest", quiet.upload_part, **composite.named, PartNumber=1, Body=b"x", ChecksumSHA1=wire.checksum("SHA1", b"x"))
    full = Upload(t, b, ChecksumAlgorithm="CRC64NVME")
    etag = quiet.upload_part(**full.named, PartNumber=1, Body=b"x")["ETag"]
    done = full.complete([{"PartNumber": 1, "ETag": etag}])
    t.equal(done["ChecksumCRC64NVME"], wire.checksum("CRC64NVME", b"x"))
    up = Upload(t, b, ChecksumAlgorithm="SHA256")
    up.part(1, b"x", ChecksumAlgorithm="SHA256")
    up.refuse(400, ("BadDigest", "InvalidPart"), [{**up.parts[0], "ChecksumSHA256": wire.checksum("SHA256", b"y")}])
    up.refuse(400, "InvalidRequest", ChecksumType="FULL_OBJECT")


@case("B16: Create names no algorithm, the parts carry CRC32")
def parts_with_unannounced_checksums(t):
    b = t.bucket()
    for named in (True, False):
        up = Upload(t, b)
        up.part(1, b"x" * 1000, ChecksumAlgorithm="CRC32")
        up.complete(None if named else [{"PartNumber": 1, "ETag": up.parts[0]["ETag"]}])
        t.equal(t.http.get(b, "k").body, b"x" * 1000)
    up = Upload(t, b)
    t.answer(t.http.request("PUT", b, "k", query={"partNumber": "1", "uploadId": up.id}, body=b"x",
                            headers={"x-amz-checksum-crc32": wire.checksum("CRC32", b"y")}), 400, "BadDigest")


@case("API CompleteMultipartUpload: x-amz-mp-object-size")
def announced_object_size(t):
    b = t.bucket()
    up = Upload(t, b)
    up.part(1, b"x" * 1000)
    up.refuse(400, "InvalidRequest", MpuObjectSize=999)
    up.complete(MpuObjectSize=1000)


# ---- GetObjectAttributes ----


@case("API GetObjectAttributes; s3-tests test_get_*_object_attributes")
def object_attributes(t):
    b = t.bucket()
    every = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
    t.s3.put_object(Bucket=b, Key="plain", Body=b"x" * 10, ChecksumAlgorithm="SHA256")
    got = t.s3.get_object_attributes(Bucket=b, Key="plain", ObjectAttributes=every)
    t.equal((got["ETag"], got["ObjectSize"], got["StorageClass"], got.get("ObjectParts")),
            (hashlib.md5(b"x" * 10).hexdigest(), 10, "STANDARD", None))
    t.equal(got["Checksum"], {"ChecksumSHA256": wire.checksum("SHA256", b"x" * 10), "ChecksumType": "FULL_OBJECT"})
    up = Upload(t, b, ChecksumAlgorithm="CRC32C")
    bodies = [t.bytes(5 * MIB), t.bytes(5 * MIB), t.bytes(3)]
    for number, body in enumerate(bodies, 1):
        up.part(number, body, "CRC32C")
    up.complete()
    got = t.s3.get_object_attributes(Bucket=b, Key="k", ObjectAttributes=every)
    t.equal((got["ETag"], got["ObjectSize"]), (multipart_etag(bodies).strip('"'), sum(map(len, bodies))))
    t.equal(got["Checksum"], {"ChecksumCRC32C": wire.composite("CRC32C", bodies), "ChecksumType": "COMPOSITE"})
    t.equal([(p["PartNumber"], p["Size"], p["ChecksumCRC32C"]) for p in got["ObjectParts"]["Parts"]],
            [(n, len(p), wire.checksum("CRC32C", p)) for n, p in enumerate(bodies, 1)])
    got = t.s3.get_object_attributes(Bucket=b, Key="k", ObjectAttributes=["ObjectParts"], MaxParts=1, PartNumberMarker=1)["ObjectParts"]
    t.equal((got["TotalPartsCount"], got["MaxParts"], got["PartNumberMarker"], got["NextPartNumberMarker"], got["IsTruncated"],
             [p["PartNumber"] for p in got["Parts"]]), (3, 1, 1, 2, True, [2]))
    t.true("ETag" not in t.s3.get_object_attributes(Bucket=b, Key="k", ObjectAttributes=["ObjectSize"]), "unasked")
    t.answer(t.http.request("GET", b, "k", query={"attributes": ""}), 400, "InvalidRequest")
    t.answer(t.http.request("GET", b, "k", query={"attributes": ""}, headers={"x-amz-object-attributes": "Foo"}), 400, "InvalidArgument")
    t.fails(404, "NoSuchKey", t.s3.get_object_attributes, Bucket=b, Key="no", ObjectAttributes=every)


# ---- UploadPartCopy ----


def part_copy(t, up, number, source, source_range=None, **headers):
    headers = {"x-amz-copy-source": source, **{k.replace("_", "-"): v for k, v in headers.items()}}
    if source_range is not None:
        headers["x-amz-copy-source-range"] = source_range
    return t.http.request("PUT", up.bucket, up.key, query={"partNumber": str(number), "uploadId": up.id}, headers=headers)


@case("API UploadPartCopy; B98: ranges, across buckets, crossing part borders")
def upload_part_copy(t):
    source_bucket, b = t.bucket(), t.bucket()
    bodies = [t.bytes(5 * MIB), t.bytes(6 * MIB)]
    source = Upload(t, source_bucket, "s")
    for number, body in enumerate(bodies, 1):
        source.part(number, body)
    source.complete()
    whole = b"".join(bodies)
    up = Upload(t, b)
    name = f"{source_bucket}/s"
    want, etags = [], []
    for number, (first, last) in enumerate([(0, 5 * MIB - 1), (5 * MIB - 100, 10 * MIB + 50), (7, 7)], 1):
        answer = t.answer(part_copy(t, up, number, name, f"bytes={first}-{last}"), 200)
        want.append(whole[first:last + 1])
        etags.append(answer.body.decode().split("<ETag>")[1].split("</ETag>")[0].replace("&quot;", '"'))
        t.equal(etags[-1], wire.etag(want[-1]), f"part {number}")
    t.equal([p["Size"] for p in t.s3.list_parts(**up.named)["Parts"]], [len(w) for w in want])
    done = up.complete([{"PartNumber": i, "ETag": e} for i, e in enumerate(etags, 1)])
    t.equal(done["ETag"], multipart_etag(want))
    t.http.delete(source_bucket, "s")
    t.true(t.http.get(b, "k").body == b"".join(want), "other bytes")
    t.http.put(source_bucket, "small", b"0123456789")
    up = Upload(t, b, "mixed")
    t.answer(part_copy(t, up, 1, f"{source_bucket}/small"), 200, what="the whole source")
    up.part(1, b"replaced")
    t.answer(part_copy(t, up, 1, f"{source_bucket}/small", "bytes=2-4"), 200)
    up.complete([{"PartNumber": 1, "ETag": wire.etag(b"234")}])
    t.equal(t.http.get(b, "mixed").body, b"234")


@case("API UploadPartCopy: bad ranges; B97; s3-tests test_multipart_copy_improper_range, _invalid_range")
def upload_part_copy_ranges(t):
    b = t.bucket()
    t.http.put(b, "s", b"0123456789")
    up = Upload(t, b)
    for bad in ("0-2", "bytes=0", "bytes=hello-world", "bytes=0-bar", "bytes=hello-", "bytes=0-2,3-5", "", "bytes=0-", "bytes=-3",
                "bytes=5-2"):
        t.answer(part_copy(t, up, 1, f"{b}/s", bad), 400, "InvalidArgument", bad)
    for bad in ("bytes=0-10", "bytes=10-20"):
        answer = part_copy(t, up, 1, f"{b}/s", bad)
        t.true((answer.status, answer.code) in ((400, "InvalidArgument"), (416, "InvalidRange"), (400, "InvalidRange")), (bad, answer.status, answer.code))
    t.answer(part_copy(t, up, 1, f"{b}/missing"), 404, "NoSuchKey")
    t.answer(part_copy(t, up, 1, f"{b}/s", x_amz_copy_source_if_match='"abc"'), 412, "PreconditionFailed")
    t.answer(part_copy(t, up, 1, f"{b}/s", x_amz_copy_source_if_match=wire.etag(b"0123456789")), 200)


@case("B88: 10,000 parts complete at once; parts copied whole share their bytes", alone=True)
def ten_thousand_parts(t):
    b = t.bucket()
    source, tail = t.bytes(5 * MIB), b"tail"
    t.http.put(b, "s", source)
    up = Upload(t, b)
    for number in range(1, 10000):
        t.answer(part_copy(t, up, number, f"{b}/s"), 200, what=number)
    up.part(10000, tail)
    pages = list(t.s3.get_paginator("list_parts").paginate(**up.named))
    t.equal(([len(p["Parts"]) for p in pages], pages[-1]["Parts"][-1]["PartNumber"]), ([1000] * 10, 10000))
    part_etag = wire.etag(source)
    parts = [{"PartNumber": n, "ETag": part_etag} for n in range(1, 10000)] + up.parts
    etag = hashlib.md5(hashlib.md5(source).digest() * 9999 + hashlib.md5(tail).digest()).hexdigest()
    t.equal(up.complete(parts)["ETag"], f'"{etag}-10000"')
    size = 5 * MIB * 9999 + len(tail)
    head = t.s3.head_object(Bucket=b, Key="k", PartNumber=10000)
    t.equal((head["PartsCount"], head["ContentLength"], head["ContentRange"]), (10000, 4, f"bytes {size - 4}-{size - 1}/{size}"))
    first = 5 * MIB * 7777 - 10
    t.equal(t.http.get(b, "k", {"Range": f"bytes={first}-{first + 19}"}).body, source[-10:] + source[:10])
    t.equal(t.http.get(b, "k", {"Range": "bytes=-6"}).body, source[-2:] + tail)
    t.http.delete(b, "k")
    t.true(t.http.get(b, "s").body == source, "deleting the copy took its source")
