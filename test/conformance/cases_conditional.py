"""Conditional writes: PutObject, CompleteMultipartUpload, DeleteObject (CopyObject: cases_copy)."""
import wire
from suite import case


@case("API PutObject: If-None-Match; s3-tests test_put_object_ifnonmatch_*; B111, B113")
def put_if_none_match(t):
    b = t.bucket()
    etag = t.answer(t.http.put(b, "k", b"one", {"If-None-Match": "*"}), 200).headers["etag"]
    t.answer(t.http.put(b, "k", b"two", {"If-None-Match": "*"}), 412, "PreconditionFailed")
    t.answer(t.http.put(b, "k", b"two", {"If-None-Match": etag}), 412, "PreconditionFailed")
    t.equal(t.http.get(b, "k").body, b"one")
    t.answer(t.http.put(b, "k", b"two", {"If-None-Match": '"other"'}), 200)
    t.http.delete(b, "k")
    t.answer(t.http.put(b, "k", b"three", {"If-None-Match": "*"}), 200, what="after a delete")


@case("API PutObject: If-Match; B112: 404 NoSuchKey when there is nothing to match")
def put_if_match(t):
    b = t.bucket()
    t.answer(t.http.put(b, "k", b"x", {"If-Match": "*"}), 404, "NoSuchKey")
    t.answer(t.http.put(b, "k", b"x", {"If-Match": '"abc"'}), 404, "NoSuchKey")
    etag = t.http.put(b, "k", b"one").headers["etag"]
    t.answer(t.http.put(b, "k", b"two", {"If-Match": '"abc"'}), 412, "PreconditionFailed")
    t.equal(t.http.get(b, "k").body, b"one")
    for value in (etag, "*"):
        t.answer(t.http.put(b, "k", b"two", {"If-Match": value}), 200, what=value)
    t.answer(t.http.put(b, "k", b"three", {"If-Match": wire.etag(b"two").strip('"')}), 200, what="without quotes")
    t.answer(t.http.put(b, "k", b"four", {"If-Match": wire.etag(b"two")}), 412, "PreconditionFailed")


@case("s3-tests 2.5: the check is atomic with the commit, at the end of the body")
def condition_is_judged_at_the_commit(t):
    b = t.bucket()
    for size in (1000, 200000):
        etag = t.http.put(b, "k", b"first").headers["etag"]
        body = t.bytes(size)
        head, _ = wire.head(t.store, "PUT", f"/{b}/k", {"content-length": str(size), "if-match": etag})
        slow = t.wire().send(head, body[:size // 2])
        t.answer(t.http.put(b, "k", b"second"), 200)
        t.answer(slow.send(body[size // 2:]).receive(), 412, "PreconditionFailed", size)
        t.equal(t.http.get(b, "k").body, b"second")
        head, _ = wire.head(t.store, "PUT", f"/{b}/new{size}", {"content-length": str(size), "if-none-match": "*"})
        slow = t.wire().send(head, body[:size // 2])
        t.answer(t.http.put(b, f"new{size}", b"second"), 200)
        t.answer(slow.send(body[size // 2:]).receive(), 412, "PreconditionFailed", size)


def start(t, bucket, key):
    upload = t.s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    etag = t.s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
    return dict(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})


@case("API CompleteMultipartUpload: If-None-Match, If-Match; B112")
def complete_conditions(t):
    b = t.bucket()
    finish = t.s3.complete_multipart_upload
    t.fails(404, "NoSuchKey", finish, **start(t, b, "k"), IfMatch='"abc"')
    finish(**start(t, b, "k"), IfNoneMatch="*")
    again = start(t, b, "k")
    t.fails(412, "PreconditionFailed", finish, **again, IfNoneMatch="*")
    t.fails(412, "PreconditionFailed", finish, **again, IfMatch='"abc"')
    etag = t.http.put(b, "k", b"plain").headers["etag"]
    t.equal(t.http.get(b, "k").body, b"plain")
    finish(**again, IfMatch=etag)
    t.equal(t.http.get(b, "k").body, b"part")


@case("API DeleteObject: If-Match; s3-tests test_delete_object_*if_match*")
def delete_if_match(t):
    b = t.bucket()
    etag = t.http.put(b, "k", b"one").headers["etag"]
    t.answer(t.http.request("DELETE", b, "k", headers={"If-Match": '"abc"'}), 412, "PreconditionFailed")
    t.equal(t.http.get(b, "k").body, b"one")
    t.answer(t.http.request("DELETE", b, "k", headers={"If-Match": etag}), 204)
    t.answer(t.http.request("DELETE", b, "k", headers={"If-Match": etag}), 204, what="a missing key, whatever the condition")
    t.http.put(b, "k", b"one")
    t.answer(t.http.request("DELETE", b, "k", headers={"If-Match": "*"}), 204)


@case("s3-tests test_delete_object_if_match_size, _last_modified_time")
def delete_if_size_and_time(t):
    b = t.bucket()
    t.http.put(b, "k", b"12345")
    modified = t.http.request("HEAD", b, "k").headers["last-modified"]
    t.answer(t.http.request("DELETE", b, "k", headers={"x-amz-if-match-size": "4"}), 412, "PreconditionFailed")
    t.answer(t.http.request("DELETE", b, "k", headers={"x-amz-if-match-last-modified-time": "Sun, 06 Nov 1994 08:49:37 GMT"}), 412,
             "PreconditionFailed")
    t.answer(t.http.request("DELETE", b, "k", headers={"x-amz-if-match-size": "x"}), 400, "InvalidArgument")
    t.answer(t.http.request("DELETE", b, "k", headers={"x-amz-if-match-size": "5",
                                                       "x-amz-if-match-last-modified-time": modified}), 204)


@case("B84: no permission is 403, whatever the condition")
def conditions_come_after_authorisation(t):
    b = t.bucket()
    etag = t.http.put(b, "k", b"x").headers["etag"]
    for headers in ({"If-Match": '"abc"'}, {"If-None-Match": etag}, {"If-None-Match": "*"}):
        t.answer(t.as_("nothing").get(b, "k", headers), 403, "AccessDenied", headers)
        t.answer(t.as_("nothing").put(b, "k", b"y", headers), 403, "AccessDenied", headers)
