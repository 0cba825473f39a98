"""Buckets: create, name, list, locate, head, delete."""
import wire
from suite import NAMESPACE, case

GOOD_NAMES = ["aaa", "aaa.111", "aaa-111", "1aaa", "a" * 60, "b" * 63, "a.b-c.d", "foo-1.bar"]
BAD_NAMES = ["a", "aa", "a" * 64, "_foo", "foo_bar", "foo-", "-foo", "foo..bar", "foo.-bar", "foo-.bar", "192.168.5.123",
             "Foo", ".foo", "foo.", "foo bar", "foo!"]


@case("API CreateBucket: names; s3-tests test_bucket_create_naming_good_*")
def good_bucket_names(t):
    for name in GOOD_NAMES:
        t.answer(t.http.request("PUT", name), 200, what=name)
        t.answer(t.http.request("HEAD", name), 200, what=name)
        t.answer(t.http.request("DELETE", name), 204, what=name)


@case("API CreateBucket: names; s3-tests test_bucket_create_naming_bad_*")
def bad_bucket_names(t):
    for name in BAD_NAMES:
        t.answer(t.http.request("PUT", name), 400, "InvalidBucketName", name)


@case("API CreateBucket; AWS measured: Location header")
def create_bucket_answers_location(t):
    name = t.name_bucket()
    answer = t.answer(t.http.request("PUT", name), 200)
    t.equal(answer.headers.get("location"), "/" + name)
    t.equal(answer.body, b"")


@case("s3-tests test_bucket_recreate_not_overriding; API CreateBucket us-east-1")
def creating_again_is_harmless(t):
    name = t.bucket()
    t.http.put(name, "k", b"kept")
    t.answer(t.http.request("PUT", name), 200)
    t.equal(t.http.get(name, "k").body, b"kept")


@case("API CreateBucket: BucketAlreadyExists")
def name_of_another_owner_is_taken(t):
    name = t.bucket("other")
    t.answer(t.http.request("PUT", name), 409, "BucketAlreadyExists")


@case("API CreateBucket: LocationConstraint; API GetBucketLocation")
def location_is_what_was_given(t):
    name = t.name_bucket()
    t.s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-3"})
    t.equal(t.s3.get_bucket_location(Bucket=name)["LocationConstraint"], "eu-west-3")


@case("API GetBucketLocation: empty for us-east-1; the store's region otherwise")
def location_of_a_plain_bucket(t):
    name = t.bucket()
    region = t.http.request("HEAD", name).headers["x-amz-bucket-region"]
    location = t.s3.get_bucket_location(Bucket=name)["LocationConstraint"]
    t.equal(location, None if region == "us-east-1" else region)
    body = t.http.request("GET", name, query={"location": ""}).body.decode()
    t.true(NAMESPACE in body and "<LocationConstraint" in body, body)


@case("API CreateBucket: MalformedXML")
def create_bucket_document_is_checked(t):
    for body in (b"<CreateBucketConfiguration>", b"<Foo/>", b"no xml"):
        t.answer(t.http.request("PUT", t.name_bucket(), body=body), 400, "MalformedXML", body)


@case("API HeadBucket; HEAD errors have no body")
def head_bucket(t):
    name = t.bucket()
    answer = t.answer(t.http.request("HEAD", name), 200)
    t.true("x-amz-bucket-region" in answer.headers, answer.headers)
    missing = t.http.request("HEAD", t.name_bucket())
    t.equal((missing.status, missing.body), (404, b""))


@case("API DeleteBucket: NoSuchBucket, BucketNotEmpty")
def delete_bucket(t):
    name = t.bucket()
    t.http.put(name, "k", b"x")
    t.answer(t.http.request("DELETE", name), 409, "BucketNotEmpty")
    t.http.delete(name, "k")
    t.answer(t.http.request("DELETE", name), 204)
    t.answer(t.http.request("DELETE", name), 404, "NoSuchBucket")
    t.answer(t.http.get(name, "k"), 404, "NoSuchBucket")
    t.answer(t.http.put(name, "k", b"x"), 404, "NoSuchBucket")
    t.answer(t.http.delete(name, "k"), 404, "NoSuchBucket")
    t.answer(t.http.request("GET", name), 404, "NoSuchBucket")


@case("API DeleteBucket: unfinished uploads do not keep a bucket; with an object they stay")
def delete_bucket_with_uploads(t):
    name = t.bucket()
    t.http.put(name, "k", b"x")
    t.answer(t.http.request("POST", name, "u", query=[("uploads", "")]), 200)
    t.answer(t.http.request("DELETE", name), 409, "BucketNotEmpty")
    listing = t.http.request("GET", name, query=[("uploads", "")]).body
    t.equal(listing.count(b"<UploadId>"), 1)
    t.http.delete(name, "k")
    t.answer(t.http.request("DELETE", name), 204)
    t.answer(t.http.request("GET", name), 404, "NoSuchBucket")


@case("API DeleteBucket; a bucket of the same name later is new")
def deleted_bucket_comes_back_empty(t):
    name = t.bucket()
    t.http.put(name, "old", b"x" * 100000)
    t.http.delete(name, "old")
    t.http.request("DELETE", name)
    t.answer(t.http.request("PUT", name), 200)
    t.equal(t.http.keys(name), [])
    t.answer(t.http.get(name, "old"), 404, "NoSuchKey")


@case("API ListBuckets; B42")
def list_buckets(t):
    names = [t.bucket("creator") for _ in range(3)]
    answer = t.boto("creator").list_buckets()
    seen = [b["Name"] for b in answer["Buckets"]]
    t.true(set(names) <= set(seen), seen)
    t.equal(seen, sorted(seen))
    t.equal(answer["Owner"]["ID"], t.account("creator").key)
    t.equal(answer["Owner"]["DisplayName"], t.account("creator").name)
    t.true(all(b["CreationDate"].year >= 2024 for b in answer["Buckets"]), answer["Buckets"])
    for path in ("/", "//"):
        head, _ = wire.head(t.store, "GET", path)
        t.answer(t.wire().send(head).receive(), 200, what=path)


@case("API ListBuckets: MaxBuckets, ContinuationToken, Prefix")
def list_buckets_in_pages(t):
    prefix = t.name_bucket()[:30].rstrip("-.")
    names = [f"{prefix}-{i}" for i in range(5)]
    for name in names:
        t.s3.create_bucket(Bucket=name)
    for size in (1, 2, 5, 1000):
        seen, token, pages = [], {}, 0
        while True:
            page = t.s3.list_buckets(MaxBuckets=size, Prefix=prefix, **token)
            pages += 1
            seen += [b["Name"] for b in page["Buckets"]]
            t.true(len(page["Buckets"]) <= size, page)
            if not page.get("ContinuationToken"):
                break
            token = {"ContinuationToken": page["ContinuationToken"]}
        t.equal(seen, names, f"pages of {size}")
        t.equal(pages, -(-len(names) // size), f"pages of {size}")
    t.answer(t.http.request("GET", query={"max-buckets": "0"}), 400, "InvalidArgument")
    t.answer(t.http.request("GET", query={"max-buckets": "x"}), 400, "InvalidArgument")
    t.answer(t.http.request("GET", query={"continuation-token": "made.up"}), 400, "InvalidArgument")


@case("API ListBuckets: only the caller's; default deny")
def list_buckets_shows_only_usable_ones(t):
    name = t.bucket()
    t.true(name not in [b["Name"] for b in t.boto("nothing").list_buckets()["Buckets"]], "shown without a right")
    t.allow(name, "nothing", "read")
    t.true(name in [b["Name"] for b in t.boto("nothing").list_buckets()["Buckets"]], "not shown with a right")


@case("Garage: bucket alias; a second name is the same bucket")
def bucket_alias(t):
    name = t.bucket()
    alias = name + ".alias"
    t.store.cli("bucket", "alias", name, alias)
    t.http.put(name, "k", b"x")
    t.equal(t.http.get(alias, "k").body, b"x")
    t.store.cli("bucket", "unalias", alias)
    t.answer(t.http.get(alias, "k"), 404, "NoSuchBucket")


@case("Garage: bucket set-quotas")
def quotas(t):
    name = t.bucket()
    t.store.cli("bucket", "set-quotas", name, "--max-objects", "2")
    t.answer(t.http.put(name, "a", b"x"), 200)
    t.answer(t.http.put(name, "b", b"x"), 200)
    t.answer(t.http.put(name, "c", b"x"), 403, "QuotaExceeded")
    t.answer(t.http.put(name, "a", b"other"), 200, what="overwrite")
    t.equal(t.http.keys(name), ["a", "b"])
    t.store.cli("bucket", "set-quotas", name, "--max-objects", "none", "--max-size", "1000")
    t.answer(t.http.put(name, "big", bytes(2000)), 403, "QuotaExceeded")
    t.answer(t.http.put(name, "c", bytes(900)), 200)
    t.answer(t.http.request("PUT", name, "copy", headers={"x-amz-copy-source": f"{name}/c"}), 403, "QuotaExceeded")
    t.answer(t.http.delete(name, "c"), 204)
    t.answer(t.http.put(name, "d", bytes(900)), 200, what="after a delete there is room")
