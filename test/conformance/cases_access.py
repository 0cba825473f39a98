"""Who may do what: rights of keys on buckets, default deny, 403 and 404."""
from suite import case

READS = [("GET", "", {}), ("HEAD", "", {}), ("GET", "", {"list-type": "2"}), ("GET", "", {"versions": ""}), ("GET", "", {"uploads": ""}),
         ("GET", "k", {}), ("HEAD", "k", {}), ("GET", "k", {"attributes": ""}), ("GET", "", {"acl": ""}), ("GET", "k", {"acl": ""})]
WRITES = [("PUT", "new", {}), ("DELETE", "gone", {}), ("POST", "new", {"uploads": ""}), ("POST", "", {"delete": ""})]
OWNS = [("PUT", "", {"policy": ""}), ("PUT", "", {"cors": ""}), ("GET", "", {"policy": ""}), ("DELETE", "", {"lifecycle": ""})]
DELETE = b"<Delete><Object><Key>gone</Key></Object></Delete>"


def ask(client, bucket, method, key, query):
    headers = {"x-amz-object-attributes": "ETag"} if "attributes" in query else {}
    return client.request(method, bucket, key, query=query, headers=headers, body=DELETE if "delete" in query else b"")


def check(t, role, rights, allowed):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    if rights:
        t.allow(b, role, *rights)
    client = t.as_(role)
    for group, requests in (("read", READS), ("write", WRITES), ("owner", OWNS)):
        for method, key, query in requests:
            answer = ask(client, b, method, key, query)
            what = f"{role} {method} {key or 'bucket'} {query}"
            if group in allowed:
                t.true(answer.status != 403, f"{what}: {answer.status} {answer.code}")
                t.true(answer.status < 500 or answer.status == 501, f"{what}: {answer.status} {answer.code}")
            else:
                t.equal(answer.status, 403, what)
                if method != "HEAD":
                    t.equal(answer.code, "AccessDenied", what)
    if "owner" not in allowed:
        t.answer(client.request("DELETE", b), 403, "AccessDenied", f"{role} DeleteBucket")
        t.equal(t.http.get(b, "k").body, b"x")
    return b, client


@case("Garage: a key without rights; default deny")
def no_rights(t):
    b, client = check(t, "nothing", (), ())
    t.answer(client.get(b, "missing"), 403, "AccessDenied", "a missing key is not told from one that is there")
    t.answer(client.request("HEAD", b, "missing"), 403)


@case("Garage: bucket allow --read; 404 with the right to list")
def read_only(t):
    b, client = check(t, "reader", ("read",), ("read",))
    t.answer(client.get(b, "missing"), 404, "NoSuchKey")


@case("Garage: bucket allow --write")
def write_only(t):
    b, client = check(t, "writer", ("write",), ("write",))
    t.answer(client.get(b, "k"), 403, "AccessDenied")
    upload = t.boto("writer").create_multipart_upload(Bucket=b, Key="m")["UploadId"]
    etag = t.boto("writer").upload_part(Bucket=b, Key="m", UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    t.boto("writer").list_parts(Bucket=b, Key="m", UploadId=upload)
    t.boto("writer").complete_multipart_upload(Bucket=b, Key="m", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    t.equal(t.http.get(b, "m").body, b"x")


@case("Garage: bucket allow --owner")
def owner_only(t):
    b, client = check(t, "owner", ("owner",), ("owner",))
    t.http.delete(b, "k")
    t.answer(client.request("DELETE", b), 204)


@case("Garage: bucket deny takes a right away at once")
def denied_again(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    t.allow(b, "reader", "read", "write")
    client = t.as_("reader")
    t.answer(client.put(b, "k", b"y"), 200)
    t.store.cli("bucket", "deny", b, "--key", t.account("reader").key, "--write")
    t.answer(client.put(b, "k", b"z"), 403, "AccessDenied")
    t.answer(client.get(b, "k"), 200)
    t.store.cli("bucket", "deny", b, "--key", t.account("reader").key, "--read")
    t.answer(client.get(b, "k"), 403, "AccessDenied")


@case("Garage: key allow --create-bucket")
def the_right_to_create_buckets(t):
    name = t.name_bucket()
    t.answer(t.as_("nothing").request("PUT", name), 403, "AccessDenied")
    t.answer(t.http.request("HEAD", name), 404)
    t.answer(t.as_("creator").request("PUT", name), 200)
    t.answer(t.as_("creator").put(name, "k", b"x"), 200, what="the creator owns it")
    t.answer(t.as_("nothing").get(name, "k"), 403, "AccessDenied")
    t.answer(t.as_("other").get(name, "k"), 403, "AccessDenied")


@case("API: anonymous callers; s3-tests test_object_anon_put, test_bucket_list_objects_anonymous_fail")
def anonymous(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")

    def ask_unsigned(method, bucket="", key="", query=(), body=b""):
        return t.http.request(method, bucket, key, query=query, body=body, signed=False)

    for method, key, query in READS + WRITES + OWNS:
        answer = ask_unsigned(method, b, key, query, DELETE if "delete" in query else b"")
        t.equal(answer.status, 403, f"{method} {key} {query}")
        t.true(method == "HEAD" or answer.code == "AccessDenied", answer.code)
    t.answer(ask_unsigned("GET"), 403, "AccessDenied", "ListBuckets")
    t.answer(ask_unsigned("PUT", t.name_bucket()), 403, "AccessDenied", "CreateBucket")
    t.answer(ask_unsigned("GET", "no-such-bucket-here", "k"), 404, "NoSuchBucket")
    t.answer(ask_unsigned("GET", b, "k", {"response-content-type": "x"}), 403, "AccessDenied")
    t.answer(ask_unsigned("PUT", b, "k2", body=b"y" * 100000), 403, "AccessDenied")
    t.equal(t.http.keys(b), ["k"])


@case("API: NoSuchBucket for any signed caller")
def missing_buckets(t):
    for role in ("main", "nothing"):
        for method, key in (("GET", ""), ("GET", "k"), ("PUT", "k"), ("DELETE", "k"), ("DELETE", "")):
            t.answer(t.as_(role).request(method, "no-such-bucket-here", key), 404, "NoSuchBucket", (role, method, key))


@case("Garage: local aliases are names of one key only")
def local_aliases(t):
    b = t.bucket()
    t.allow(b, "reader", "read")
    t.http.put(b, "k", b"x")
    t.store.cli("bucket", "alias", b, "only-mine", "--local", t.account("reader").key)
    t.equal(t.as_("reader").get("only-mine", "k").body, b"x")
    t.answer(t.as_("nothing").get("only-mine", "k"), 404, "NoSuchBucket")
    t.true("only-mine" in [x["Name"] for x in t.boto("reader").list_buckets()["Buckets"]], "not in its key's ListBuckets")
