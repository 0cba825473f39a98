"""What errors look like, sub-resources that are not built, and the answers of a bucket that never configured them."""
import xml.etree.ElementTree

import wire
from suite import case


@case("API Error responses: shape, request id, content type")
def error_documents(t):
    b = t.bucket()
    answer = t.answer(t.http.get(b, "a&b<c>"), 404, "NoSuchKey")
    t.true(answer.headers["content-type"].startswith("application/xml"), answer.headers)
    root = xml.etree.ElementTree.fromstring(answer.body)
    t.equal(root.tag, "Error")
    t.equal((root.findtext("Code"), root.findtext("Key"), root.findtext("RequestId")),
            ("NoSuchKey", "a&b<c>", answer.headers["x-amz-request-id"]))
    t.true(root.findtext("Message"), answer.body)
    missing = t.answer(t.http.request("GET", "no-such-bucket-here"), 404, "NoSuchBucket")
    t.equal(xml.etree.ElementTree.fromstring(missing.body).findtext("BucketName"), "no-such-bucket-here")


@case("API Common response headers: a request id on every answer, never the same")
def request_ids(t):
    b = t.bucket()
    seen = set()
    for _ in range(50):
        for method, key in (("PUT", "k"), ("GET", "k"), ("HEAD", "k"), ("GET", "missing"), ("DELETE", "k")):
            seen.add(t.http.request(method, b, key).headers["x-amz-request-id"])
    t.equal(len(seen), 250)


@case("API Error responses: SignatureDoesNotMatch says what was signed")
def signature_errors_explain(t):
    import s3lib
    answer = s3lib.Client(t.store, s3lib.KEY, "wrong").request("GET", "conformance")
    root = xml.etree.ElementTree.fromstring(t.answer(answer, 403, "SignatureDoesNotMatch").body)
    t.true(root.findtext("StringToSign").startswith("AWS4-HMAC-SHA256\n"), answer.body)
    t.true(root.findtext("CanonicalRequest").startswith("GET\n/conformance\n"), answer.body)
    t.true(b"wrong" not in answer.body and s3lib.SECRET.encode() not in answer.body, "a secret in an answer")


NEVER_CONFIGURED = [
    ("get_bucket_acl", None), ("get_bucket_versioning", None), ("get_bucket_logging", None), ("get_bucket_request_payment", None),
    ("get_bucket_notification_configuration", None), ("get_bucket_accelerate_configuration", None), ("get_bucket_policy_status", None),
    ("get_bucket_lifecycle_configuration", "NoSuchLifecycleConfiguration"), ("get_bucket_cors", "NoSuchCORSConfiguration"),
    ("get_bucket_policy", "NoSuchBucketPolicy"), ("get_bucket_tagging", "NoSuchTagSet"), ("get_bucket_website", "NoSuchWebsiteConfiguration"),
    ("get_bucket_encryption", "ServerSideEncryptionConfigurationNotFoundError"),
    ("get_object_lock_configuration", "ObjectLockConfigurationNotFoundError"),
    ("get_bucket_ownership_controls", "OwnershipControlsNotFoundError"), ("get_public_access_block", "NoSuchPublicAccessBlockConfiguration"),
    ("get_bucket_replication", "ReplicationConfigurationNotFoundError")]


@case("B123: sub-resources of a bucket that never configured them; Terraform reads them all")
def never_configured(t):
    b = t.bucket()
    for operation, code in NEVER_CONFIGURED:
        function = getattr(t.s3, operation)
        if code:
            t.fails(404, code, function, Bucket=b)
            t.fails(404, "NoSuchBucket", function, Bucket="no-such-bucket-here")
        else:
            function(Bucket=b)
    t.true("Status" not in t.s3.get_bucket_versioning(Bucket=b), "versioning has no status")
    t.equal(t.s3.get_bucket_request_payment(Bucket=b)["Payer"], "BucketOwner")
    acl = t.s3.get_bucket_acl(Bucket=b)
    t.equal([(g["Grantee"]["ID"], g["Permission"]) for g in acl["Grants"]], [(acl["Owner"]["ID"], "FULL_CONTROL")])
    t.equal(t.s3.get_bucket_policy_status(Bucket=b)["PolicyStatus"]["IsPublic"], False)


@case("B123, issue 3: sub-resources of an object")
def never_configured_of_objects(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    acl = t.s3.get_object_acl(Bucket=b, Key="k")
    t.equal([(g["Grantee"]["ID"], g["Permission"]) for g in acl["Grants"]], [(t.account("main").key, "FULL_CONTROL")])
    t.equal(t.s3.get_object_tagging(Bucket=b, Key="k")["TagSet"], [])
    t.fails(400, "InvalidRequest", t.s3.get_object_retention, Bucket=b, Key="k")
    t.fails(400, "InvalidRequest", t.s3.get_object_legal_hold, Bucket=b, Key="k")
    for function in (t.s3.get_object_acl, t.s3.get_object_tagging):
        t.fails(404, "NoSuchKey", function, Bucket=b, Key="missing")


@case("API Delete*: removing what was never configured is 204")
def deleting_what_is_not_configured(t):
    b = t.bucket()
    t.http.put(b, "k", b"x")
    for sub in ("lifecycle", "cors", "policy", "tagging", "website", "encryption", "ownershipControls", "publicAccessBlock", "replication"):
        t.answer(t.http.request("DELETE", b, query={sub: ""}), 204, what=sub)
    t.answer(t.http.request("DELETE", b, "k", query={"tagging": ""}), 204)
    t.equal(t.http.keys(b), ["k"])
    t.answer(t.http.request("HEAD", b), 200, what="B147: the bucket is still there")


@case("B147: a sub-resource that is not built is 501 and never reaches the plain operation")
def unbuilt_subresources(t):
    b = t.bucket()
    for method in ("PUT", "DELETE", "POST"):
        for sub in ("analytics", "inventory", "metrics", "intelligent-tiering", "requestPayment", "accelerate", "logging", "notification",
                    "versioning", "acl", "object-lock", "foo", "session"):
            answer = t.http.request(method, b, query={sub: ""})
            t.answer(answer, 501, "NotImplemented", f"{method} ?{sub}")
    for sub in ("policy", "cors", "lifecycle", "tagging", "website", "encryption", "ownershipControls", "publicAccessBlock", "replication"):
        t.answer(t.http.request("PUT", b, query={sub: ""}, body=b"<x/>"), 501, "NotImplemented", f"PUT ?{sub}")
    t.answer(t.http.request("HEAD", b), 200, what="the bucket is still there")
    t.http.put(b, "k", b"x")
    for method, sub in (("PUT", "acl"), ("PUT", "tagging"), ("PUT", "retention"), ("PUT", "legal-hold"), ("POST", "restore"), ("POST", "select"),
                        ("PUT", "foo"), ("DELETE", "foo"), ("GET", "torrent")):
        t.answer(t.http.request(method, b, "k", query={sub: ""}, body=b"<x/>"), 501, "NotImplemented", f"{method} k?{sub}")
    t.equal(t.http.get(b, "k").body, b"x")
    t.answer(t.http.request("GET", b, "k", query={"versions": ""}), 400, "InvalidRequest")
    t.answer(t.http.request("GET", b, "k", query={"uploads": ""}), 400, "InvalidRequest")


@case("API: MethodNotAllowed, unknown methods")
def methods(t):
    b = t.bucket()
    t.answer(t.http.request("POST", b, "k"), 405, "MethodNotAllowed")
    for method in ("PATCH", "TRACE", "PROPFIND", "FOO"):
        answer = t.http.request(method, b, "k")
        t.true(answer.status in (405, 501), (method, answer.status))
    t.answer(t.http.request("GET", b, "k", query={"acl": "", "tagging": ""}), 400, what="two sub-resources")


@case("AWS measured: x-amz-bucket-region on HeadBucket and listings")
def bucket_region(t):
    b = t.bucket()
    region = t.http.request("HEAD", b).headers["x-amz-bucket-region"]
    t.equal(t.http.request("GET", b).headers.get("x-amz-bucket-region"), region)


@case("botocore: waiters by HEAD")
def waiters(t):
    b = t.bucket()
    t.s3.get_waiter("bucket_exists").wait(Bucket=b, WaiterConfig={"MaxAttempts": 1})
    t.s3.get_waiter("object_not_exists").wait(Bucket=b, Key="k", WaiterConfig={"MaxAttempts": 1})
    t.http.put(b, "k", b"x")
    t.s3.get_waiter("object_exists").wait(Bucket=b, Key="k", WaiterConfig={"MaxAttempts": 1})


@case("API: XML documents are bounded")
def large_documents(t):
    b = t.bucket()
    body = b"<Delete>" + b" " * (3 << 20) + b"</Delete>"
    answer = t.http.request("POST", b, query={"delete": ""}, body=body, headers={"Content-MD5": wire.md5(body)})
    t.true(answer.status in (400, 413), answer.status)
    deep = b"<a>" * 5000 + b"</a>" * 5000
    t.answer(t.http.request("POST", b, query={"delete": ""}, body=deep), 400, "MalformedXML")
