"""CopyObject."""
import time
import urllib.parse

import wire
from suite import case


def copy(t, bucket, key, source, client=None, **headers):
    headers = {"x-amz-copy-source": source, **{k.replace("_", "-"): v for k, v in headers.items()}}
    return (client or t.http).request("PUT", bucket, key, headers=headers)


@case("API CopyObject; B101: the ETag of a copy is its source's")
def copy_object(t):
    b, other = t.bucket(), t.bucket()
    for size in (0, 100, 50000, 5 << 20):
        body = t.bytes(size)
        t.http.put(b, "s", body, {"x-amz-meta-a": "1", "Content-Type": "foo/bar", "Cache-Control": "no-store"})
        answer = t.answer(copy(t, other, "d", f"{b}/s"), 200)
        t.true(wire.etag(body).strip('"') in answer.body.decode() and b"<LastModified>" in answer.body, answer.body)
        got = t.http.get(other, "d")
        t.true(got.body == body, f"{size} bytes: other bytes")
        t.equal((got.headers["etag"], got.headers["x-amz-meta-a"], got.headers["content-type"], got.headers["cache-control"]),
                (wire.etag(body), "1", "foo/bar", "no-store"))
    t.http.delete(b, "s")
    t.true(t.http.get(other, "d").body == body, "the copy depends on its source")


@case("API CopyObject: a copy outlives overwrites of either side")
def copies_are_independent(t):
    b = t.bucket()
    body = t.bytes(300000)
    t.http.put(b, "s", body)
    for i in range(5):
        t.answer(copy(t, b, f"d{i}", f"{b}/s"), 200)
    t.http.put(b, "s", b"other")
    t.http.delete(b, "d0")
    t.http.put(b, "d1", b"mine")
    for i in range(2, 5):
        t.true(t.http.get(b, f"d{i}").body == body, f"copy {i}")
    t.answer(copy(t, b, "d2", f"{b}/d3"), 200)
    t.true(t.http.get(b, "d2").body == body, "copy over a copy")


@case("API CopyObject: onto itself; s3-tests test_object_copy_to_itself")
def copy_onto_itself(t):
    b = t.bucket()
    body = t.bytes(40000)
    t.http.put(b, "k", body, {"x-amz-meta-a": "1", "Content-Type": "foo/bar"})
    t.answer(copy(t, b, "k", f"{b}/k"), 400, "InvalidRequest")
    t.answer(copy(t, b, "k", f"{b}/k", x_amz_metadata_directive="REPLACE", x_amz_meta_b="2"), 200)
    got = t.http.get(b, "k")
    t.true(got.body == body, "the body is lost")
    t.true("x-amz-meta-a" not in got.headers and got.headers["x-amz-meta-b"] == "2", got.headers)
    t.true(got.headers["content-type"] != "foo/bar", "REPLACE kept the content type")


@case("B102: REPLACE replaces user and system metadata; COPY ignores headers; the date moves")
def metadata_directive(t):
    b = t.bucket()
    t.http.put(b, "s", b"x", {"x-amz-meta-a": "1", "Content-Type": "foo/bar", "Content-Language": "de"})
    t.answer(copy(t, b, "d", f"{b}/s", x_amz_metadata_directive="COPY", x_amz_meta_z="9", Content_Type="new/type"), 200)
    headers = t.http.get(b, "d").headers
    t.equal((headers.get("x-amz-meta-a"), headers.get("x-amz-meta-z"), headers["content-type"]), ("1", None, "foo/bar"))
    t.answer(copy(t, b, "d", f"{b}/s", x_amz_metadata_directive="REPLACE", x_amz_meta_z="9", Content_Type="new/type"), 200)
    headers = t.http.get(b, "d").headers
    t.equal((headers.get("x-amz-meta-a"), headers.get("x-amz-meta-z"), headers["content-type"], headers.get("content-language")),
            (None, "9", "new/type", None))
    t.answer(copy(t, b, "d", f"{b}/s", x_amz_metadata_directive="FOO"), 400, "InvalidArgument")
    before = t.s3.head_object(Bucket=b, Key="s")["LastModified"]
    time.sleep(1.1)
    copy(t, b, "s", f"{b}/s", x_amz_metadata_directive="REPLACE")
    t.true(t.s3.head_object(Bucket=b, Key="s")["LastModified"] > before, "LastModified is the time of the copy")


SOURCES = ["a b+c", "é%25", "foo%.txt", "foo%25.txt", "?versionId", "a&b=c", "x//y", "..", "dir/", "日本"]


@case("API CopyObject: x-amz-copy-source; B40; s3-tests test_object_copy_key_with_special_chars")
def copy_sources(t):
    b = t.bucket()
    for key in SOURCES:
        t.http.put(b, key, key.encode())
    for key in SOURCES:
        full = urllib.parse.quote(f"{b}/{key}", safe="/")
        for source in (full, "/" + full, urllib.parse.quote(f"{b}/{key}", safe=""), full + "?versionId=null"):
            t.answer(copy(t, b, "d", source), 200, what=source)
            t.equal(t.http.get(b, "d").body, key.encode(), source)
        t.s3.copy_object(Bucket=b, Key="by boto", CopySource={"Bucket": b, "Key": key})
        t.equal(t.http.get(b, "by boto").body, key.encode(), key)
    t.http.put(b, "raw name", b"raw")
    t.answer(copy(t, b, "d", f"{b}/raw name"), 200, what="a raw blank, as SDKs send it")
    t.http.put(b, "p+q", b"plus")
    t.answer(copy(t, b, "d", f"{b}/p+q"), 200, what="a raw plus stays a plus")


@case("API CopyObject: errors")
def copy_errors(t):
    b = t.bucket()
    t.http.put(b, "s", b"x")
    t.answer(copy(t, b, "d", f"{b}/missing"), 404, "NoSuchKey")
    t.answer(copy(t, b, "d", "no-such-bucket-here/s"), 404, "NoSuchBucket")
    t.answer(copy(t, b, "d", b), 400, "InvalidArgument")
    t.answer(copy(t, b, "d", f"{b}/"), 400, "InvalidArgument")
    t.answer(copy(t, b, "d", "/"), 400, "InvalidArgument")
    t.answer(copy(t, b, "d", ""), 400, what="empty source")
    t.answer(copy(t, b, "d", f"{b}/s?versionId=3sL4kqtJlcpXroDTDmJ.rmSpXd3dIbrHY"), 404, "NoSuchVersion")
    t.answer(copy(t, "no-such-bucket-here", "d", f"{b}/s"), 404, "NoSuchBucket")
    t.equal(t.http.keys(b), ["s"])


@case("API CopyObject: source conditions; s3-tests test_copy_object_ifmatch_*; B100")
def copy_source_conditions(t):
    b = t.bucket()
    etag = t.http.put(b, "s", b"x").headers["etag"]
    past, future = "Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 01 Jan 2096 00:00:00 GMT"
    for status, headers in [
            (200, {"if_match": etag}), (200, {"if_match": etag.strip('"')}), (412, {"if_match": '"abc"'}),
            (412, {"if_none_match": etag}), (200, {"if_none_match": '"abc"'}), (200, {"if_modified_since": past}),
            (412, {"if_modified_since": future}), (412, {"if_unmodified_since": past}), (200, {"if_unmodified_since": future}),
            (200, {"if_match": etag, "if_unmodified_since": past}), (412, {"if_none_match": etag, "if_modified_since": past})]:
        answer = copy(t, b, "d", f"{b}/s", **{"x_amz_copy_source_" + k: v for k, v in headers.items()})
        t.answer(answer, status, "PreconditionFailed" if status == 412 else None, headers)


@case("API CopyObject: If-Match and If-None-Match of the target; B112")
def copy_target_conditions(t):
    b = t.bucket()
    t.http.put(b, "s", b"source")
    t.answer(copy(t, b, "d", f"{b}/s", If_None_Match="*"), 200)
    t.answer(copy(t, b, "d", f"{b}/s", If_None_Match="*"), 412, "PreconditionFailed")
    etag = t.http.put(b, "d", b"other").headers["etag"]
    t.answer(copy(t, b, "d", f"{b}/s", If_Match='"abc"'), 412, "PreconditionFailed")
    t.equal(t.http.get(b, "d").body, b"other")
    t.answer(copy(t, b, "d", f"{b}/s", If_Match=etag), 200)
    t.equal(t.http.get(b, "d").body, b"source")
    t.answer(copy(t, b, "new", f"{b}/s", If_Match=etag), 404, "NoSuchKey")


@case("API CopyObject: rights on both sides; 403 before any word on the source")
def copy_rights(t):
    b, target = t.bucket(), t.bucket()
    t.http.put(b, "s", b"x")
    t.allow(target, "writer", "write")
    t.answer(copy(t, target, "d", f"{b}/s", t.as_("writer")), 403, "AccessDenied")
    t.answer(copy(t, target, "d", f"{b}/missing", t.as_("writer")), 403, "AccessDenied")
    t.allow(b, "reader", "read")
    t.answer(copy(t, b, "d", f"{b}/s", t.as_("reader")), 403, "AccessDenied")
    t.allow(b, "writer", "read")
    t.answer(copy(t, target, "d", f"{b}/s", t.as_("writer")), 200)


@case("API CopyObject: a multipart object becomes a plain copy with its metadata; s3-tests test_object_copy_verify_multipart")
def copy_of_a_multipart_object(t):
    b = t.bucket()
    upload = t.s3.create_multipart_upload(Bucket=b, Key="s", Metadata={"a": "1"}, ContentType="foo/bar")["UploadId"]
    bodies = [t.bytes(5 << 20), t.bytes(123456)]
    parts = [{"PartNumber": i, "ETag": t.s3.upload_part(Bucket=b, Key="s", UploadId=upload, PartNumber=i, Body=p)["ETag"]}
             for i, p in enumerate(bodies, 1)]
    t.s3.complete_multipart_upload(Bucket=b, Key="s", UploadId=upload, MultipartUpload={"Parts": parts})
    t.s3.copy_object(Bucket=b, Key="d", CopySource={"Bucket": b, "Key": "s"})
    t.http.delete(b, "s")
    got = t.http.get(b, "d")
    t.true(got.body == b"".join(bodies), "other bytes")
    t.equal((got.headers["x-amz-meta-a"], got.headers["content-type"]), ("1", "foo/bar"))
    listed = t.s3.list_objects_v2(Bucket=b)["Contents"][0]
    t.equal(listed["ETag"], got.headers["etag"])
    t.http.put(b, "over", b"x" * 10)
    t.s3.copy_object(Bucket=b, Key="over", CopySource={"Bucket": b, "Key": "d"})
    middle = (5 << 20) - 10
    t.equal(t.http.get(b, "over", {"Range": f"bytes={middle}-{middle + 19}"}).body, b"".join(bodies)[middle:middle + 20])


@case("API CopyObject: ChecksumAlgorithm")
def copy_with_a_checksum(t):
    b = t.bucket()
    body = t.bytes(70000)
    t.s3.put_object(Bucket=b, Key="s", Body=body, ChecksumAlgorithm="SHA256")
    kept = t.s3.copy_object(Bucket=b, Key="d", CopySource={"Bucket": b, "Key": "s"})["CopyObjectResult"]
    t.equal(kept.get("ChecksumSHA256"), wire.checksum("SHA256", body))
    new = t.s3.copy_object(Bucket=b, Key="e", CopySource={"Bucket": b, "Key": "s"}, ChecksumAlgorithm="CRC64NVME")["CopyObjectResult"]
    t.equal(new.get("ChecksumCRC64NVME"), wire.checksum("CRC64NVME", body))
    head = t.s3.head_object(Bucket=b, Key="e", ChecksumMode="ENABLED")
    t.equal(head.get("ChecksumCRC64NVME"), wire.checksum("CRC64NVME", body))
