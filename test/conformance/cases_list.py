"""Listings against a model: a sorted list of keys and the rules of the API, nothing else."""
import urllib.parse
import xml.etree.ElementTree

import wire
from suite import NAMESPACE, case

NS = "{" + NAMESPACE + "}"


def model(keys, prefix, delimiter, after):
    """All (key or common prefix) of a listing in order. after: entries up to it are gone; a prefix stands for all below it."""
    entries = []
    for key in sorted(keys, key=str.encode):
        if not key.startswith(prefix):
            continue
        at = key.find(delimiter, len(prefix)) if delimiter else -1
        entry = (key, False) if at < 0 else (key[:at + len(delimiter)], True)
        if entry not in entries[-1:]:
            entries.append(entry)
    return [e for e in entries if e[0].encode() > after.encode()]


def put_all(t, bucket, keys):
    for key in keys:
        t.answer(t.http.put(bucket, key, key.encode()[:10]), 200)


class Page:
    def __init__(self, t, bucket, query):
        answer = t.answer(t.http.request("GET", bucket, query=query), 200, what=query)
        self.root = xml.etree.ElementTree.fromstring(answer.body)
        t.true(self.root.tag in (NS + "ListBucketResult", NS + "ListVersionsResult"), self.root.tag)
        self.url = self.text("EncodingType") == "url"

    def decode(self, text):
        return urllib.parse.unquote(text) if self.url and text else text or ""

    def text(self, name):
        node = self.root.find(NS + name)
        return None if node is None else node.text or ""

    def entries(self):
        keys = [(self.decode(n.findtext(f"{NS}Key")), False) for n in self.root.iter() if n.tag in (NS + "Contents", NS + "Version")]
        prefixes = [(self.decode(n.findtext(f"{NS}Prefix")), True) for n in self.root.iter(NS + "CommonPrefixes")]
        return sorted(keys + prefixes, key=lambda e: e[0].encode())

    truncated = property(lambda self: self.text("IsTruncated") == "true")


def walk(t, bucket, form, query, size):
    """Every entry over all pages, checking each page's own promises."""
    found, more, pages = [], {}, 0
    while True:
        page = Page(t, bucket, {"encoding-type": "url", **query, **more, **({"list-type": "2"} if form == 2 else {}),
                                "max-keys": str(size)})
        entries = page.entries()
        pages += 1
        t.true(len(entries) <= size, f"{len(entries)} entries on a page of {size}")
        if form == 2:
            t.equal(page.text("KeyCount"), str(len(entries)), "KeyCount")
            t.equal(page.text("NextMarker"), None)
            t.equal(page.text("NextContinuationToken") is not None, page.truncated, "a token exactly while more remain")
        else:
            t.equal(page.text("NextMarker") is not None, page.truncated and bool(query.get("delimiter")), "NextMarker")
        found += entries
        if not page.truncated:
            return found
        t.true(entries, "a truncated page without an entry")
        t.true(pages < 2000, "the listing does not end")
        more = {"continuation-token": page.text("NextContinuationToken")} if form == 2 else {
            "marker": page.decode(page.text("NextMarker")) if query.get("delimiter") else entries[-1][0]}


ALPHABET = ["a", "b", "+", "-", ".", "/", "0", "%", "&", "é", "\x1f", " "]


@case("B45, B46, B48, B49, B57, B58: random keys, every prefix, delimiters, page sizes, both versions")
def listings_equal_the_model(t):
    b = t.bucket()
    keys = {"".join(t.random.choice(ALPHABET) for _ in range(t.random.randint(1, 6))) for _ in range(150)}
    put_all(t, b, keys)
    prefixes = [""] + t.random.sample(sorted({k[:i] for k in keys for i in range(1, len(k) + 1)}), 25)
    for form in (1, 2):
        for prefix in prefixes:
            for delimiter in ("", "/", t.random.choice(ALPHABET), t.random.choice(("a/", "é", "zz", "/0"))):
                query = {"prefix": prefix, **({"delimiter": delimiter} if delimiter else {})}
                want = model(keys, prefix, delimiter, "")
                size = t.random.choice((1, 2, 3, 5, 1000)) if len(want) < 40 else t.random.choice((5, 7, 1000))
                t.equal(walk(t, b, form, query, size), want, f"v{form} {query} by {size}")


@case("API ListObjectsV2: StartAfter; API ListObjects: Marker; they need not exist")
def starting_points(t):
    b = t.bucket()
    keys = ["a", "a/", "a/b", "a0", "b", "b/1", "b/2", "c+d", "é"]
    put_all(t, b, keys)
    for after in ["", "a", "a/", "a/a", "a.", "b/", "b/1", "b/9", "zz", "~", "\n", "é", "\U0010ffff"]:
        for delimiter in ("", "/"):
            query = {"delimiter": delimiter} if delimiter else {}
            # A marker inside a common prefix shows the prefix again unless it is that prefix itself.
            want = [e for e in model(keys, "", delimiter, "") if e[0].encode() > after.encode() or
                    (e[1] and after.startswith(e[0]) and after != e[0] and any(
                        k.startswith(e[0]) and k.encode() > after.encode() for k in keys))]
            for size in (1, 1000):
                t.equal(walk(t, b, 2, {"start-after": after, **query}, size), want, f"start-after {after!r} {query}")
                first = Page(t, b, {"marker": after, **query, "encoding-type": "url"}).entries()
                t.equal(first, want, f"marker {after!r} {query}")


@case("B50: a deep tree; B54: dir/ is a plain key")
def deep_trees_and_slash_keys(t):
    b = t.bucket()
    keys = ["/".join("abcdefghijkl"[:i]) for i in range(1, 13)] + ["dir/", "dir/x", "/x/y", "//", "asdf/"]
    put_all(t, b, keys)
    for key in keys + [""]:
        want = model(keys, key, "", "")
        t.equal(walk(t, b, 2, {"prefix": key}, 1000), want, key)
        t.equal(walk(t, b, 2, {"prefix": key, "delimiter": "/"}, 2), model(keys, key, "/", ""), key)
    t.equal(Page(t, b, {"prefix": "asdf/", "delimiter": "/"}).entries(), [("asdf/", False)])
    head, _ = wire.head(t.store, "GET", f"/{b}//x/y")
    t.answer(t.wire().send(head).receive(), 200, what="GET b//x/y")


@case("API ListObjectsV2: what is echoed; s3-tests test_bucket_listv2_*")
def echoes_v2(t):
    b = t.bucket()
    put_all(t, b, ["a", "b", "c"])
    page = Page(t, b, {"list-type": "2"})
    t.equal([page.text(n) for n in ("Name", "Prefix", "MaxKeys", "KeyCount", "IsTruncated", "Delimiter", "StartAfter",
                                    "ContinuationToken", "EncodingType", "Marker")],
            [b, "", "1000", "3", "false", None, None, None, None, None])
    page = Page(t, b, {"list-type": "2", "prefix": "a b", "delimiter": "x", "start-after": "q", "continuation-token": "",
                       "encoding-type": "url", "max-keys": "7"})
    t.equal([page.text(n) for n in ("Prefix", "MaxKeys", "KeyCount", "Delimiter", "StartAfter", "ContinuationToken", "EncodingType")],
            ["a%20b", "7", "0", "x", "q", "", "url"])
    first = Page(t, b, {"list-type": "2", "max-keys": "1"})
    token = first.text("NextContinuationToken")
    t.true(token.replace("-", "").replace("_", "").replace(".", "").isalnum(), f"B38: token {token!r}")
    page = Page(t, b, {"list-type": "2", "continuation-token": token, "start-after": "c"})
    t.equal((page.entries(), page.text("ContinuationToken"), page.text("StartAfter")),
            ([("b", False), ("c", False)], token, "c"), "the token decides, both are echoed")


@case("API ListObjects: what is echoed; s3-tests test_bucket_list_*")
def echoes_v1(t):
    b = t.bucket()
    put_all(t, b, ["a", "b/1", "b/2", "c"])
    page = Page(t, b, {})
    t.equal([page.text(n) for n in ("Name", "Prefix", "Marker", "MaxKeys", "IsTruncated", "Delimiter", "KeyCount", "NextMarker")],
            [b, "", "", "1000", "false", None, None, None])
    page = Page(t, b, {"delimiter": "/", "max-keys": "2"})
    t.equal((page.text("NextMarker"), page.entries()), ("b/", [("a", False), ("b/", True)]))
    page = Page(t, b, {"delimiter": "", "marker": "b/1"})
    t.equal((page.text("Delimiter"), page.text("Marker"), page.entries()), (None, "b/1", [("b/2", False), ("c", False)]))


@case("B70, B25: max-keys 0, above 1000, not a number")
def max_keys(t):
    b = t.bucket()
    put_all(t, b, ["a", "b"])
    for form in ({}, {"list-type": "2"}):
        page = Page(t, b, {**form, "max-keys": "0", "prefix": "", "delimiter": ""})
        t.equal((page.entries(), page.truncated, page.text("MaxKeys")), ([], False, "0"))
        t.equal(page.text("KeyCount"), "0" if form else None)
        t.equal(Page(t, b, {**form, "max-keys": "5000"}).text("MaxKeys"), "1000")
        t.equal(Page(t, b, {**form, "max-keys": "2147483647"}).text("MaxKeys"), "1000")
        for bad in ("x", "-1", "2147483648", "1x", "99999999999999999999"):
            t.answer(t.http.request("GET", b, query={**form, "max-keys": bad}), 400, "InvalidArgument", bad)


@case("B60: a made-up token; bad encoding-type, list-type, allow-unordered")
def bad_parameters(t):
    b = t.bucket()
    put_all(t, b, ["a"])
    for query in ({"list-type": "2", "continuation-token": "made-up"}, {"list-type": "2", "continuation-token": "AAAA"},
                  {"encoding-type": "base64"}, {"list-type": "3"}, {"allow-unordered": "true", "delimiter": "/"}):
        t.answer(t.http.request("GET", b, query=query), 400, "InvalidArgument", query)
    t.answer(t.http.request("GET", b, query={"allow-unordered": "true"}), 200)


@case("API ListObjects: Owner always; API ListObjectsV2: with fetch-owner only")
def owners(t):
    b = t.bucket()
    put_all(t, b, ["a"])
    owner = t.boto().list_objects(Bucket=b)["Contents"][0]["Owner"]
    t.equal(owner["ID"], t.account("main").key)
    t.true(owner["DisplayName"], owner)
    t.true("Owner" not in t.boto().list_objects_v2(Bucket=b)["Contents"][0], "owner unasked")
    t.equal(t.boto().list_objects_v2(Bucket=b, FetchOwner=True)["Contents"][0]["Owner"], owner)


@case("B61: encoding-type=url in every element")
def url_encoding(t):
    b = t.bucket()
    put_all(t, b, ["a b+c/é&<>%/x", "quote\"/\x01/y"])
    answer = t.http.request("GET", b, query={"encoding-type": "url", "prefix": "a ", "delimiter": "+", "marker": "a  "})
    for piece in ("<Prefix>a%20</Prefix>", "<Marker>a%20%20</Marker>", "<Delimiter>%2B</Delimiter>",
                  "<CommonPrefixes><Prefix>a%20b%2B</Prefix></CommonPrefixes>", "<EncodingType>url</EncodingType>"):
        t.true(piece in answer.body.decode(), f"{piece} is not in {answer.body!r}")
    answer = t.http.request("GET", b, query={"encoding-type": "url", "list-type": "2"})
    t.true("<Key>a%20b%2Bc/%C3%A9%26%3C%3E%25/x</Key>" in answer.body.decode(), answer.body)
    t.true("<Key>quote%22/%01/y</Key>" in answer.body.decode(), answer.body)


@case("B62: control bytes without encoding-type")
def control_bytes_are_escaped(t):
    b = t.bucket()
    put_all(t, b, ["cr\rlf\n", "tab\t&<>'\""])
    answer = t.http.request("GET", b, query={"list-type": "2"})
    t.true(b"&#13;" in answer.body or b"&#xD;" in answer.body.replace(b"&#xd;", b"&#xD;"), answer.body)
    keys = [n.text for n in xml.etree.ElementTree.fromstring(answer.body).iter(NS + "Key")]
    t.equal(keys, ["cr\rlf\n", "tab\t&<>'\""])
    put_all(t, b, ["unit\x1fseparator"])
    answer = t.http.request("GET", b, query={"list-type": "2"})
    t.true(b"\x1f" not in answer.body, "a raw control byte in XML")


@case("API ListObjectVersions on a bucket without versions; every object is version null")
def versions_of_a_plain_bucket(t):
    b = t.bucket()
    keys = ["a", "a/b", "c d", "é"]
    put_all(t, b, keys)
    for size in (1, 3, 1000):
        seen, more = [], {}
        while True:
            page = t.s3.list_object_versions(Bucket=b, MaxKeys=size, **more)
            for version in page.get("Versions", []):
                t.equal((version["VersionId"], version["IsLatest"], version["StorageClass"]), ("null", True, "STANDARD"))
                t.equal(version["ETag"], wire.etag(version["Key"].encode()[:10]))
                t.true(version["Owner"]["ID"] and "LastModified" in version, version)
                seen.append(version["Key"])
            if not page["IsTruncated"]:
                break
            more = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
        t.equal(seen, sorted(keys, key=str.encode), f"pages of {size}")
    t.answer(t.http.request("GET", b, query={"versions": "", "version-id-marker": "null"}), 400, "InvalidArgument")


@case("API ListObjects: NoSuchBucket; JS SDK v3 lists /bucket/?list-type=2")
def list_path_forms(t):
    b = t.bucket()
    put_all(t, b, ["a"])
    t.answer(t.http.request("GET", "no-such-bucket-here", query={"list-type": "2"}), 404, "NoSuchBucket")
    for path in (f"/{b}", f"/{b}/"):
        head, _ = wire.head(t.store, "GET", path, query=[("list-type", "2")])
        t.true(b"<Key>a</Key>" in t.answer(t.wire().send(head).receive(), 200, what=path).body, path)


@case("B72: after random writes and deletes one listing equals the model", alone=True)
def listing_after_concurrent_changes(t):
    import concurrent.futures
    b = t.bucket()
    names = [f"d{i % 7}/f{i % 50}/x{i}" for i in range(400)]

    def writer(number):
        import random
        choice, kept = random.Random(number), set()
        mine = names[number::8]
        client = t.as_("main")
        for _ in range(100):
            key = choice.choice(mine)
            if key in kept and choice.random() < 0.5:
                client.delete(b, key)
                kept.discard(key)
            else:
                client.put(b, key, b"x")
                kept.add(key)
        return kept

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        keys = set().union(*pool.map(writer, range(8)))
    t.equal(walk(t, b, 2, {}, 7), model(keys, "", "", ""))
    t.equal(walk(t, b, 1, {"delimiter": "/"}, 3), model(keys, "", "/", ""))
    t.equal(walk(t, b, 2, {"prefix": "d3/", "delimiter": "/"}, 5), model(keys, "d3/", "/", ""))
