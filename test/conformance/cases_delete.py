"""DeleteObject and DeleteObjects."""
import concurrent.futures
from xml.sax.saxutils import escape

import wire
from suite import case


def document(keys, quiet=False, extra=""):
    objects = "".join(f"<Object><Key>{escape(k)}</Key>{extra}</Object>" for k in keys)
    return f"<Delete>{'<Quiet>true</Quiet>' if quiet else ''}{objects}</Delete>".encode()


def delete_many(t, bucket, body, client=None, **headers):
    headers = {"Content-MD5": wire.md5(body), **headers}
    return (client or t.http).request("POST", bucket, query={"delete": ""}, body=body, headers=headers)


@case("API DeleteObject: 204, also for a missing key; B116")
def delete_object(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    for _ in range(2):
        answer = t.answer(t.http.delete(b, "k"), 204)
        t.equal(answer.body, b"")
        t.true("x-amz-delete-marker" not in answer.headers, answer.headers)
    t.answer(t.http.delete("no-such-bucket-here", "k"), 404, "NoSuchBucket")
    t.answer(t.http.request("DELETE", b, "k", query={"versionId": "3sL4kqtJlcpXroDTDmJ.rmSpXd3dIbrHY"}), 204)


@case("B118: DELETE of dir/ removes that key only")
def delete_of_a_slash_key(t):
    b = t.bucket()
    for key in ("dir", "dir/", "dir/x"):
        t.http.put(b, key, key.encode())
    t.answer(t.http.delete(b, "dir/"), 204)
    t.equal(t.http.keys(b), ["dir", "dir/x"])
    t.answer(t.http.delete(b, "dir"), 204)
    t.equal(t.http.get(b, "dir/x").body, b"dir/x")


@case("API DeleteObjects; B117: each key in exactly one of Deleted and Error")
def delete_objects(t):
    b = t.bucket()
    keys = ["a", "a/b", "é &<>", " ", "missing", "x\x0by".replace("\x0b", "-")]
    for key in keys:
        if key != "missing":
            t.http.put(b, key, b"x")
    t.http.put(b, "kept", b"x")
    answer = t.s3.delete_objects(Bucket=b, Delete={"Objects": [{"Key": k} for k in keys]})
    t.equal([d["Key"] for d in answer["Deleted"]], keys)
    t.equal(answer.get("Errors", []), [])
    t.equal(t.http.keys(b), ["kept"])


@case("API DeleteObjects: Quiet hides Deleted")
def delete_objects_quiet(t):
    b = t.bucket()
    t.http.put(b, "a", b"x")
    answer = t.s3.delete_objects(Bucket=b, Delete={"Quiet": True, "Objects": [{"Key": "a"}, {"Key": "b"}]})
    t.true("Deleted" not in answer and "Errors" not in answer, answer)
    t.equal(t.http.keys(b), [])


@case("API DeleteObjects: 1000 keys, not 1001; s3-tests test_multi_object_delete_key_limit")
def delete_objects_limit(t):
    b = t.bucket()
    for i in range(20):
        t.http.put(b, f"k{i:04}", b"x")
    keys = [f"k{i:04}" for i in range(1001)]
    t.answer(delete_many(t, b, document(keys)), 400, "MalformedXML")
    t.equal(len(t.http.keys(b)), 20)
    answer = t.answer(delete_many(t, b, document(keys[:1000])), 200)
    t.equal(answer.body.count(b"<Deleted>"), 1000)
    t.equal(t.http.keys(b), [])


@case("API DeleteObjects: MalformedXML")
def delete_objects_malformed(t):
    b = t.bucket()
    t.http.put(b, "a", b"x")
    for body in (b"", b"<Delete>", b"<Delete></Delete>", b"<Foo><Object><Key>a</Key></Object></Foo>", b"\xff\xfe", b"{}",
                 b"<!DOCTYPE d [<!ENTITY e 'a'>]><Delete><Object><Key>&e;</Key></Object></Delete>"):
        t.answer(delete_many(t, b, body), 400, "MalformedXML", body)
    t.equal(t.http.keys(b), ["a"])


@case("API DeleteObjects: integrity; B14: CRC32 instead of MD5")
def delete_objects_integrity(t):
    b = t.bucket()
    body = document(["a"])

    def post(**headers):
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        return t.http.request("POST", b, query={"delete": ""}, body=body, headers=headers)

    t.http.put(b, "a", b"x")
    t.answer(post(Content_MD5=wire.md5(b"other")), 400, "BadDigest")
    t.answer(post(x_amz_checksum_crc32=wire.checksum("CRC32", b"other")), 400, "BadDigest")
    t.equal(t.http.keys(b), ["a"])
    for algorithm in wire.DIGESTS:
        t.answer(post(**{wire.header_of(algorithm).replace("-", "_"): wire.checksum(algorithm, body),
                         "x_amz_sdk_checksum_algorithm": algorithm}), 200, what=algorithm)
    t.answer(post(), 200, what="a signed payload hash alone is integrity enough")


@case("s3-tests test_multi_object_delete_versions; VersionId null is the current version")
def delete_objects_versions(t):
    b = t.bucket()
    t.http.put(b, "a", b"x")
    answer = t.s3.delete_objects(Bucket=b, Delete={"Objects": [{"Key": "a", "VersionId": "null"}]})
    t.equal(len(answer["Deleted"]), 1)
    t.equal(t.http.keys(b), [])


@case("s3-tests test_delete_objects_*_if_match: ETag, Size, LastModifiedTime per key")
def delete_objects_conditions(t):
    b = t.bucket()
    etags = {k: t.http.put(b, k, k.encode()).headers["etag"] for k in ("a", "b", "c")}
    answer = t.s3.delete_objects(Bucket=b, Delete={"Objects": [
        {"Key": "a", "ETag": etags["a"]}, {"Key": "b", "ETag": '"0123"'}, {"Key": "c", "Size": 5}, {"Key": "none", "ETag": '"1"'}]})
    t.equal(sorted(d["Key"] for d in answer["Deleted"]), ["a", "none"])
    t.equal(sorted((e["Key"], e["Code"]) for e in answer["Errors"]), [("b", "PreconditionFailed"), ("c", "PreconditionFailed")])
    t.equal(t.http.keys(b), ["b", "c"])


@case("s3-tests test_concurrent_multi_object_delete")
def concurrent_identical_deletes(t):
    b = t.bucket()
    keys = [f"k{i:03}" for i in range(100)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: t.s3.put_object(Bucket=b, Key=k, Body=b"x"), keys))
        answers = list(pool.map(lambda _: t.s3.delete_objects(Bucket=b, Delete={"Objects": [{"Key": k} for k in keys]}), range(6)))
    for answer in answers:
        t.equal(len(answer.get("Deleted", [])), 100)
        t.equal(answer.get("Errors", []), [])
    t.equal(t.http.keys(b), [])


@case("API DeleteObjects: authorisation before anything else")
def delete_objects_needs_write(t):
    b = t.bucket()
    t.http.put(b, "a", b"x")
    t.allow(b, "reader", "read")
    t.answer(delete_many(t, b, document(["a"]), t.as_("reader")), 403, "AccessDenied")
    t.equal(t.http.keys(b), ["a"])
