"""Every command of the program: in the order of two tutorials that people follow with other systems, its JSON, its help and exit
codes, and what an operator does to a running server (TLS files, SIGTERM, systemd, metrics, rebuild)."""
import contextlib
import datetime
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import s3lib
from s3lib import Client, Store, describe
from suite import Skip, case, check, random_file


@contextlib.contextmanager
def running(**options):
    arguments = options.pop("arguments", ())
    store = Store(**options)
    try:
        yield store.start(arguments=arguments)
    finally:
        store.close()


def hay(store, *arguments, code=0, env=None):
    """Runs a command; returns (stdout, stderr)."""
    done = subprocess.run([s3lib.binary(), "-c", store.config, *arguments], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, check=False)
    check(done.returncode == code, f"`hayloft {' '.join(arguments)}` ended with {done.returncode} instead of {code}: "
          f"{done.stdout[-300:]}{done.stderr[-500:]}")
    if code:
        check(done.stderr.strip(), f"`hayloft {' '.join(arguments)}` failed without a word")
    return done.stdout, done.stderr


def hay_json(store, *arguments):
    out, _ = hay(store, *arguments, "--json")
    try:
        return json.loads(out)
    except ValueError as why:
        raise AssertionError(f"`hayloft {' '.join(arguments)} --json` printed no JSON ({why}): {out[:300]}") from None


def field(text, name):
    match = re.search(rf"^{re.escape(name)}:\s+(.*)$", text, re.M)
    check(match, f"no line \"{name}:\" in {text!r}")
    return match.group(1).strip()


def until(what, seconds, function):
    """Waits for something that comes by itself."""
    end = time.monotonic() + seconds
    while True:
        value = function()
        if value:
            return value
        check(time.monotonic() < end, f"not within {seconds} s: {what}")
        time.sleep(0.05)


def user(store, key_id, secret):
    return Client(store, key=key_id, secret=secret)


# ---- tutorials ----

STORY_1 = """
db_engine = "lmdb"
replication_factor = 2

[rpc]
bind_addr = "[::]:{rpc}"
public_addr = "127.0.0.1:{rpc}"
"""
STORY_1_LATER = """
[s3_web]
bind_addr = "[::]:3902"
root_domain = ".web.local"

[k2v]
api_bind_addr = "[::]:3904"
"""


@case(group="cli")
def tutorial_of_a_home_server():
    """A home server's configuration and commands, in their order; what has no meaning on one node answers clearly."""
    with contextlib.closing(Store(config=STORY_1.format(rpc=3901))) as store:
        with open(store.config, "a", encoding="ascii") as f:
            f.write(STORY_1_LATER)
        done = subprocess.run([s3lib.binary(), "-c", store.config, "server"], capture_output=True, text=True, timeout=30,
                              check=False)
        check(done.returncode == 1 and "replication_factor = 2" in done.stderr and "--single-node" in done.stderr,
              f"two copies on one node: exit {done.returncode}, {done.stderr}")
        store.start()
        for word in ("db_engine", "rpc", "s3_web", "k2v"):
            check(word in store.log_tail(10000), f"no warning that {word} has no effect: {store.log_tail()}")
        out, _ = hay(store, "layout", "assign", "-z", "1", "-c", "1TB", "127.0.0.1:3901")
        check("single node" in out, out)
        _, err = hay(store, "node", "connect", "127.0.0.1:3921", code=1)
        check("one node" in err, err)
        hay(store, "layout", "apply", "--version", "1")
        hay(store, "layout", "show")
        hay(store, "status")  # the container's health check
        hay(store, "key", "new", "--name", "system-admin")
        out, _ = hay(store, "key", "new", "--name", "paperless-app")
        key_id, secret = field(out, "Key ID"), field(out, "Secret key")
        hay(store, "bucket", "create", "paperless-bucket")
        hay(store, "bucket", "create", "audiobooks-bucket")
        hay(store, "bucket", "allow", "paperless-bucket", "--read", "--write", "--key", "system-admin")
        app = user(store, key_id, secret)
        check(app.put("paperless-bucket", "a.pdf", b"x").status == 403, "a key without rights may write")
        hay(store, "bucket", "allow", "paperless-bucket", "--read", "--write", "--key", "paperless-app")
        check(app.put("paperless-bucket", "a.pdf", b"x").status == 200, "the key may not write")
        check(app.put("audiobooks-bucket", "a.mp3", b"x").status == 403, "the key may write to another bucket")
        out, _ = hay(store, "bucket", "info", "paperless-bucket")
        check(key_id in out and "paperless-app" in out and field(out, "Objects") == "1", out)


@case(group="cli")
def tutorial_of_a_container_host():
    with running() as store:
        out, _ = hay(store, "key", "create", "juicefs")
        key_id, secret = field(out, "Key ID"), field(out, "Secret key")
        check(re.fullmatch(r"GK[0-9a-f]{24}", key_id) and re.fullmatch(r"[0-9a-f]{64}", secret), out)
        for name in ("Key name", "Created", "Validity", "Expiration"):
            field(out, name)
        client = user(store, key_id, secret)
        check(client.request("PUT", "made-by-s3").status == 403, "a key without the right made a bucket")
        out, _ = hay(store, "key", "allow", "juicefs", "--create-bucket")
        check(field(out, "Can create buckets") == "true", out)
        hay(store, "bucket", "create", "juicefs")
        hay(store, "bucket", "allow", "--owner", "--read", "--write", "juicefs", "--key", key_id)
        check(client.put("juicefs", "chunks/0/0/1_0_4096", b"c" * 4096).status == 200, "PUT failed")
        check(client.keys("juicefs") == ["chunks/0/0/1_0_4096"], "the listing differs")
        check(client.request("PUT", "made-by-s3").status == 200, "the key cannot make a bucket")
        hay(store, "key", "deny", "juicefs", "--create-bucket")
        check(client.request("PUT", "made-by-s3-2").status == 403, "the right was not taken")


# ---- buckets and keys ----

@case(group="cli")
def bucket_life():
    """Names, local names, rights, quotas, deletion."""
    with running() as store:
        root = Client(store)
        hay(store, "bucket", "create", "photos")
        hay(store, "bucket", "create", "photos", code=1)
        hay(store, "bucket", "create", "No_Bucket_Name", code=1)
        hay(store, "bucket", "alias", "photos", "pictures")
        hay(store, "bucket", "alias", "photos", "demo", code=1)
        hay(store, "bucket", "allow", "pictures", "--read", "--write", "--key", s3lib.KEY)
        check(root.put("pictures", "a", b"1").status == 200 and root.get("photos", "a").body == b"1", "an alias differs")
        hay(store, "bucket", "alias", "photos", "mine", "--local", s3lib.KEY)
        check(root.get("mine", "a").body == b"1", "a local alias is not found")
        other, _ = hay(store, "key", "create", "other")
        hay(store, "bucket", "allow", "photos", "--read", "--key", "other")
        client = user(store, field(other, "Key ID"), field(other, "Secret key"))
        check(client.get("photos", "a").status == 200, "a key that may read may not")
        check(client.get("mine", "a").status in (403, 404), "a local alias of another key is visible")
        check(client.put("photos", "b", b"2").status == 403, "a key that may only read may write")
        hay(store, "bucket", "deny", "photos", "--read", "--key", "other")
        check(client.get("photos", "a").status == 403, "a right that was taken still works")
        hay(store, "bucket", "unalias", "mine", "--local", s3lib.KEY)
        check(root.get("mine", "a").status == 404, "a local alias that was removed still works")
        hay(store, "bucket", "unalias", "pictures")
        hay(store, "bucket", "unalias", "photos", code=1)  # the last name stays
        _, err = hay(store, "bucket", "delete", "photos", code=1)
        check("--yes" in err, err)
        hay(store, "bucket", "delete", "--yes", "photos", code=1)  # not empty
        check(root.delete("photos", "a").status == 204, "DELETE failed")
        hay(store, "bucket", "delete", "--yes", "photos")
        check(root.get("photos", "a").code == "NoSuchBucket", "the bucket is still there")
        hay(store, "bucket", "info", "photos", code=1)


@case(group="cli")
def bucket_quotas():
    with running() as store:
        root = Client(store)
        hay(store, "bucket", "set-quotas", "demo", "--max-objects", "2")
        check([root.put("demo", k, b"x").status for k in "ab"] == [200, 200], "PUT within the quota failed")
        answer = root.put("demo", "c", b"x")
        check(answer.status in (403, 507) and root.get("demo", "c").status == 404, f"over the quota: {answer.status}")
        check(root.put("demo", "a", b"y").status == 200, "an overwrite counts as a new object")
        hay(store, "bucket", "set-quotas", "demo", "--max-objects", "none", "--max-size", "10KiB")
        info = hay_json(store, "bucket", "info", "demo")
        check(info["quotas"] == {"maxSize": 10240, "maxObjects": None}, f"quotas {info['quotas']}")
        check(root.put("demo", "c", b"x" * 9000).status == 200, "9,000 bytes of 10 KiB do not fit")
        answer = root.put("demo", "d", b"x" * 2000)
        check(answer.status in (403, 507), f"over the quota: {answer.status} {answer.code}")
        check(root.delete("demo", "c").status == 204 and root.put("demo", "d", b"x" * 2000).status == 200,
              "room that was freed is not counted")
        hay(store, "bucket", "set-quotas", "demo", "--max-size", "much", code=2)
        hay(store, "bucket", "set-quotas", "demo", code=2)


@case(group="cli")
def bucket_uploads_and_inspection():
    with running() as store:
        root = Client(store)
        check(root.request("POST", "demo", "half", query=[("uploads", "")]).status == 200, "no upload")
        check(hay_json(store, "bucket", "info", "demo")["unfinishedUploads"] == 1, "the upload is not counted")
        out, _ = hay(store, "bucket", "cleanup-incomplete-uploads", "demo")
        check("0 unfinished" in out, f"an upload of this minute is a day old: {out}")
        time.sleep(1.1)
        out, _ = hay(store, "bucket", "cleanup-incomplete-uploads", "--older-than", "1s", "demo")
        check("1 unfinished" in out, out)
        root.put("demo", "small", b"s" * 100, headers={"content-type": "text/x-small"})
        root.put("demo", "large", b"l" * 9_000_000)
        small = hay_json(store, "bucket", "inspect-object", "demo", "small")["versions"][0]
        check(small["size"] == 100 and small["etag"].strip('"') == hashlib.md5(b"s" * 100).hexdigest() and
              "text/x-small" in json.dumps(small["headers"]), f"{small}")
        large = hay_json(store, "bucket", "inspect-object", "demo", "large")["versions"][0]
        check(sum(b["size"] for b in large["blocks"]) == 9_000_000, f"{large}")
        hay(store, "bucket", "inspect-object", "demo", "large")
        hay(store, "bucket", "inspect-object", "demo", "nothing", code=1)


@case(group="cli")
def key_life():
    """Import of a foreign pair, renaming, expiry, deletion; the beginning of an id or a name will do."""
    with running() as store:
        hay(store, "key", "import", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "-n", "old", "--yes")
        hay(store, "key", "import", "AKIAIOSFODNN7EXAMPLE", "another-secret-of-this-key", "--yes", code=1)
        hay(store, "bucket", "allow", "demo", "--read", "--write", "--key", "AKIAIOSF")
        client = user(store, "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
        check(client.put("demo", "k", b"v").status == 200, "an imported pair cannot write")
        wrong = user(store, "AKIAIOSFODNN7EXAMPLE", "wrong").put("demo", "k", b"v")
        check(wrong.code == "SignatureDoesNotMatch", f"a wrong secret: {wrong.code}")
        hay(store, "key", "rename", "old", "new")
        check(field(hay(store, "key", "info", "new")[0], "Secret key") == "(hidden)", "key info shows the secret")
        out, _ = hay(store, "key", "info", "new", "--show-secret")
        check("wJalrXUtnFEMI" in out, "key info --show-secret hides it")
        hay(store, "key", "set", "new", "--expires-in", "1s")
        time.sleep(1.3)
        answer = client.get("demo", "k")
        check(answer.status == 403, f"an expired key answered {answer.status}")
        check("expired" in hay(store, "key", "info", "new")[0], "key info does not say that it expired")
        hay(store, "key", "set", "new", "--never-expires")
        check(client.get("demo", "k").status == 200, "the key stays expired")
        hay(store, "key", "set", "new", code=2)
        out, _ = hay(store, "key", "create", "brief", "--expires-in", "1h")
        check("never" not in field(out, "Expiration"), out)
        hay(store, "key", "delete", "new", code=1)
        hay(store, "key", "delete", "--yes", "new")
        check(client.get("demo", "k").code == "InvalidAccessKeyId", "a deleted key works")
        hay(store, "key", "info", "new", code=1)
        for _ in range(2):
            hay(store, "key", "create", "twin")
        _, err = hay(store, "key", "info", "twin", code=1)  # two of them
        check(re.search("several|more than one|ambiguous|2 ", err, re.I), err)


# ---- forms ----

READING = (["status"], ["health"], ["node", "id"], ["layout", "show"], ["bucket", "list"], ["bucket", "info", "demo"],
           ["bucket", "inspect-object", "demo", "k"], ["key", "list"], ["key", "info", s3lib.KEY], ["stats"],
           ["worker", "list"], ["scrub", "status"], ["config", "check"], ["version"])


@case(group="cli")
def json_of_reading_commands():
    with running() as store:
        Client(store).put("demo", "k", b"v")
        for command in READING:
            hay_json(store, *command)
        check("demo" in json.dumps(hay_json(store, "bucket", "list")), "bucket list --json lacks the bucket")
        key = hay_json(store, "key", "create", "by-a-program")
        check(len(key["secretAccessKey"]) == 64, "key create --json has no secret")
        stats = hay_json(store, "stats")
        check(stats["objects"] == 1 and stats["disk"]["log"] > 0, f"{stats}")
        check(json.loads(hay(store, "json-api", "ListBuckets")[0])[0]["globalAliases"] == ["demo"], "json-api differs")
        json.loads(hay(store, "json-api", "CreateBucket", '{"globalAlias": "by-api"}')[0])
        hay(store, "json-api", "CreateBucket", "{no json", code=2)
        hay(store, "json-api", "NoSuchCall", code=1)


def all_commands():
    out = subprocess.run([s3lib.binary(), "--help"], capture_output=True, text=True, check=True).stdout
    block = out.split("Commands:\n")[1].split("\n\n")[0]
    return [re.split(r"\s{2,}", line.strip())[0].split() for line in block.splitlines()]


@case(group="cli")
def help_of_every_command():
    commands = all_commands()
    check(len(commands) >= 40, f"only {len(commands)} commands are listed")
    for command in commands:
        out = subprocess.run([s3lib.binary(), *command, "--help"], capture_output=True, text=True, check=True).stdout
        check(f"Usage: hayloft {' '.join(command)}" in out, f"{command} --help printed {out[:200]}")
    for group in {c[0] for c in commands if len(c) > 1}:
        done = subprocess.run([s3lib.binary(), group], capture_output=True, text=True, check=False)
        check(done.returncode == 2 and f"{group} " in done.stderr, f"`hayloft {group}` alone: {done}")
    for shell, syntax in (("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"])):
        script = subprocess.run([s3lib.binary(), "completions", shell], capture_output=True, text=True, check=True).stdout
        check("inspect-object" in script, f"completions of {shell} lack a command")
        if shutil.which(syntax[0]):
            subprocess.run(syntax, input=script, text=True, check=True, capture_output=True)
    return f"{len(commands)} commands"


@case(group="cli")
def exit_codes():
    """0 done, 1 failed, 2 wrong use; each failure says why on standard error."""
    with running() as store:
        for arguments in (["frobnicate"], ["bucket"], ["bucket", "create"], ["bucket", "allow", "demo", "--read"],
                          ["bucket", "allow", "demo", "--key", "x"], ["status", "extra"], ["status", "--frob"],
                          ["bucket", "set-quotas", "demo", "--max-objects", "-1"], ["repair", "nonsense"], ["key", "import", "x"],
                          ["completions", "tcsh"]):
            hay(store, *arguments, code=2)
        for arguments in (["bucket", "info", "none"], ["key", "info", "none"], ["config", "check", "/nonexistent"]):
            hay(store, *arguments, code=1)
        for arguments in (["health", "-q"], ["secret", "new"], ["config", "docs"], ["man"], ["repair", "tables", "--yes"],
                          ["worker", "list", "-b"], ["stats", "-a"], ["help"] if False else ["version"]):
            hay(store, *arguments)
        store.stop()
        _, err = hay(store, "status", code=1)
        check("hayloft server" in err, f"without a server: {err}")
        hay(store, "node", "id")  # works while it is stopped


# ---- the running server ----

@case(group="cli")
def default_key_and_bucket():
    """Repeating a start is harmless; another secret is refused; without variables a pair is made and kept."""
    with contextlib.closing(Store(bucket="photos")) as store:
        for _ in range(3):
            store.start()
            check(Client(store).put("photos", "k", b"v").status == 200, "the default key may not write")
            store.stop()
        before = len(hay_keys(store))
        command = [s3lib.binary(), "-c", store.config, "server", "--single-node", "--default-access-key"]
        base = {**os.environ, "HAYLOFT_DEFAULT_ACCESS_KEY": s3lib.KEY}
        for env, word in (({**base, "HAYLOFT_DEFAULT_SECRET_KEY": "another secret of 32 characters!"}, "another secret"),
                          (base, "together")):
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=env, check=False)
            check(done.returncode == 1 and word in done.stderr, f"exit {done.returncode}: {done.stderr}")
            check("another secret of 32" not in done.stderr, "the secret is printed")
        check(len(hay_keys(store)) == before, "a refused start made a key")
    with contextlib.closing(Store()) as store:
        made = set()
        for _ in range(2):
            store.start(env={"HAYLOFT_DEFAULT_ACCESS_KEY": "", "HAYLOFT_DEFAULT_SECRET_KEY": ""})
            pair = tuple(field(store.log_tail(), n) for n in ("Access key", "Secret key"))
            check(user(store, *pair).put("demo", "k", b"v").status == 200, "the pair that was printed does not work")
            made.add(pair)
            store.stop()
        check(len(made) == 1, f"a second start made another pair: {made}")


def hay_keys(store):
    store.start()
    keys = hay_json(store, "key", "list")
    store.stop()
    return keys


@case(group="cli")
def admin_over_the_network():
    """The commands with --admin-url and a token; without one the port tells nothing."""
    with contextlib.closing(Store()) as store:
        token = f"{store.dir}/token"
        with open(token, "w", opener=lambda p, f: os.open(p, f, 0o600), encoding="ascii") as f:
            f.write("a-token-of-the-operator\n")
        with open(store.config, "a", encoding="ascii") as f:
            f.write(f'admin_token_file = "{token}"\n')
        store.start()
        base = [s3lib.binary(), "bucket", "list", "--json", "--admin-url", f"http://127.0.0.1:{store.admin_port}"]
        env = {k: v for k, v in os.environ.items() if not k.startswith("HAYLOFT_ADMIN")}
        good = subprocess.run([*base, "--admin-token-file", token], capture_output=True, text=True, env=env, check=False)
        check(good.returncode == 0 and json.loads(good.stdout), f"with the token: {good}")
        for more in ([], ["--admin-token", "wrong"]):
            bad = subprocess.run([*base, *more], capture_output=True, text=True, env=env, check=False)
            check(bad.returncode == 1 and "demo" not in bad.stdout and "token" in bad.stderr.lower(), f"{more}: {bad}")


METRIC = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
                    r'(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*")*\})? (NaN|[+-]Inf|[-+]?[0-9.]+(?:[eE][-+]?\d+)?)$')


@case(group="cli")
def metrics_and_health():
    """/metrics is Prometheus text (format 0.0.4): typed families in one piece, buckets that rise; /health is plain."""
    with running() as store:
        client = Client(store)
        for i in range(20):
            client.put("demo", f"k{i}", b"x" * 1000)
        client.get("demo", "k1")
        client.get("demo", "none")
        http = s3lib.http.client.HTTPConnection("127.0.0.1", store.admin_port, timeout=10)
        http.request("GET", "/health")
        answer = http.getresponse()
        check(answer.status == 200 and answer.read().strip() == b"healthy", "/health")
        http.request("GET", "/metrics")
        answer = http.getresponse()
        text = answer.read().decode()
        check(answer.status == 200 and answer.getheader("content-type", "").startswith("text/plain"), "/metrics")
        types, samples, family, seen = {}, {}, None, set()
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                family, kind = line.split()[2:4]
                check(family not in types and kind in ("counter", "gauge", "histogram", "summary", "untyped"), line)
                types[family] = kind
            elif line and not line.startswith("#"):
                match = METRIC.match(line)
                check(match, f"no sample: {line!r}")
                name = match.group(1)
                base = re.sub(r"_(bucket|sum|count)$", "", name) if types.get(family) == "histogram" else name
                check(base == family, f"{name} stands below {family}")
                check((name, match.group(2)) not in seen, f"{line} twice")
                seen.add((name, match.group(2)))
                samples.setdefault(name, []).append((match.group(2), float(match.group(3))))
        check(text.endswith("\n") and len(types) > 15, f"{len(types)} families")
        for name, kind in types.items():
            if kind == "histogram":
                for labels in {re.sub(r'[,{]le="[^"]*"', "", b or "") for b, _ in samples[f"{name}_bucket"]}:
                    values = [v for b, v in samples[f"{name}_bucket"] if re.sub(r'[,{]le="[^"]*"', "", b or "") == labels]
                    check(values == sorted(values), f"buckets of {name} fall")
        return f"{len(types)} families, {len(seen)} samples"


@case(group="cli")
def access_log():
    """One line a request, with its id, status and sizes; no secret in it."""
    with contextlib.closing(Store()) as store:
        log = f"{store.dir}/access.log"
        store.start(arguments=("--access-log", log))
        answer = Client(store).put("demo", "with space", b"12345")
        until("a line in the access log", 5, lambda: os.path.exists(log) and os.path.getsize(log))
        store.stop()
        with open(log, encoding="utf-8") as f:
            lines = [line for line in f if "with%20space" in line]
        check(len(lines) == 1 and answer.headers["x-amz-request-id"] in lines[0] and "200" in lines[0] and "PUT" in lines[0],
              f"lines {lines}")
        check(s3lib.SECRET not in lines[0] and "Signature" not in lines[0], "the access log holds a signature")


@case(group="cli")
def systemd_notification():
    with contextlib.closing(Store()) as store, contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as s:
        path = f"{store.dir}/notify"
        s.bind(path)
        s.settimeout(20)
        store.start(wait=False, env={"NOTIFY_SOCKET": path})
        check(b"READY=1" in s.recv(4096), "no READY=1")
        check(Client(store).put("demo", "k", b"v").status == 200, "ready, but a PUT fails")
        store.process.send_signal(signal.SIGTERM)
        check(b"STOPPING=1" in s.recv(4096), "no STOPPING=1")
        check(store.stop() == 0, "it did not end in order")


@case(group="cli")
def sigterm_finishes_accepted_requests():
    """A PUT whose body is half there when SIGTERM comes is finished and durable; new connections are not taken."""
    with contextlib.closing(Store()) as store:
        store.start()
        body = describe("slow", "w", 1, 2_000_000)
        headers = s3lib.sign("PUT", "/demo/slow", [], {"host": f"localhost:{store.port}"}, hashlib.sha256(body).hexdigest())
        with socket.create_connection(("localhost", store.port)) as s:
            head = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
            s.sendall(f"PUT /demo/slow HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:1_000_000])
            time.sleep(0.3)
            store.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            check(store.process.poll() is None, "it ended while a request was being received")
            with contextlib.suppress(OSError):
                with socket.create_connection(("localhost", store.port), timeout=2) as late:
                    late.settimeout(2)
                    late.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                    check(late.recv(100) == b"", "a new connection was served after SIGTERM")
            s.sendall(body[1_000_000:])
            s.settimeout(20)
            answer = s.recv(4096)
            check(answer.startswith(b"HTTP/1.1 200"), f"the PUT answered {answer[:100]!r}")
        check(store.process.wait(30) == 0, "it did not end in order")
        store.start()
        check(Client(store).get("demo", "slow").body == body, "the object is not there after a restart")


@case(group="cli")
def tls_files_are_read_again():
    """SIGHUP changes the certificate for new connections, keeps old ones, and keeps the old files when the new are bad."""
    with contextlib.closing(Store(tls=True)) as store:
        def certificate():
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with socket.create_connection(("localhost", store.port), timeout=10) as raw:
                with context.wrap_socket(raw, server_hostname="localhost") as s:
                    return s.getpeercert(True), s.version()

        store.start()
        first, version = certificate()
        check(version == "TLSv1.3", f"it speaks {version}")
        old = Client(store)
        check(old.put("demo", "k", b"v").status == 200, "PUT over TLS failed")
        connection = old.connection
        store.make_certificate()
        check(certificate()[0] == first, "the files were read without SIGHUP")
        store.process.send_signal(signal.SIGHUP)
        until("the new certificate", 10, lambda: certificate()[0] != first)
        second, _ = certificate()
        check(old.get("demo", "k").body == b"v" and old.connection is connection, "an open connection was cut")
        with open(f"{store.dir}/tls.crt", "w", encoding="ascii") as f:
            f.write("no certificate\n")
        store.process.send_signal(signal.SIGHUP)
        until("a line about the bad file", 10, lambda: "old TLS files stay" in store.log_tail())
        check(certificate()[0] == second, "a bad file changed the certificate")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("localhost", store.port), timeout=10) as raw:
            try:
                context.wrap_socket(raw)
                raise AssertionError("TLS 1.1 was accepted")
            except (ssl.SSLError, ConnectionResetError):
                pass


@case(group="cli")
def scrub_and_workers():
    with running() as store:
        client = Client(store)
        for i in range(20):
            client.put("demo", f"k{i}", describe(f"k{i}", "w", i, 100_000))
        workers = hay_json(store, "worker", "list")
        check({"checkpoint", "compaction", "scrub"} <= {w["name"] for w in workers}, f"{workers}")
        before = hay_json(store, "scrub", "status")["lastCompleted"]
        time.sleep(0.01)
        hay(store, "scrub", "start")
        until("the end of the scrub", 30, lambda: hay_json(store, "scrub", "status")["state"] == "idle" and
              hay_json(store, "scrub", "status")["lastCompleted"] != before)
        check(hay_json(store, "scrub", "status")["damagedRecords"] == 0, "a new store has damage")
        hay(store, "repair", "scrub", "start")
        hay(store, "repair", "-a", "--yes", "blocks")
        hay(store, "scrub", "resume", code=1) if hay_json(store, "scrub", "status")["state"] == "idle" else None


@case(group="cli")
def rebuild_from_the_data_files():
    """The metadata directory is lost; objects, buckets, names and headers come back from the volumes. Keys and their rights do
    not lie there; the default key is made by the start."""
    with contextlib.closing(Store()) as store:
        store.start()
        client, objects = Client(store), {}
        hay(store, "bucket", "create", "second")
        hay(store, "bucket", "alias", "second", "zweiter")
        hay(store, "bucket", "allow", "second", "--read", "--write", "--key", s3lib.KEY)
        for bucket in ("demo", "second"):
            for i, size in enumerate((0, 1, 100, 4096, 32768, 32769, 200_000, 5_000_000)):
                for key in (f"dir/ä {i}", f"plain-{i}"):
                    body = describe(f"{bucket}/{key}", "w", i, size)[:size]
                    answer = client.put(bucket, key, body, headers={"x-amz-meta-number": str(i), "content-type": "text/x-y"})
                    check(answer.status == 200, f"PUT answered {answer.status}")
                    objects[bucket, key] = (body, answer.headers["etag"])
        for key in ("plain-3", "dir/ä 7"):
            check(client.delete("demo", key).status == 204, "DELETE failed")
            del objects["demo", key]
        upload = client.request("POST", "demo", "parts", query=[("uploads", "")]).body.decode().split("<UploadId>")[1].split("<")[0]
        xml, whole = "", b""
        for number in (1, 2):
            part = describe("parts", "w", number, 5 << 20)
            answer = client.request("PUT", "demo", "parts", query=[("partNumber", str(number)), ("uploadId", upload)], body=part)
            xml += f"<Part><PartNumber>{number}</PartNumber><ETag>{answer.headers['etag']}</ETag></Part>"
            whole += part
        answer = client.request("POST", "demo", "parts", query=[("uploadId", upload)],
                                body=f"<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>".encode())
        objects["demo", "parts"] = (whole, client.request("HEAD", "demo", "parts").headers["etag"])
        check(client.request("PUT", "second", "copy", headers={"x-amz-copy-source": "/demo/plain-7"}).status == 200, "no copy")
        objects["second", "copy"] = objects["demo", "plain-7"]
        _, err = hay(store, "rebuild", "--yes", code=1)
        check(re.search("stop|another", err), f"rebuild beside a server: {err}")
        store.stop()
        hay(store, "rebuild", code=1)  # asks for --yes
        shutil.rmtree(f"{store.dir}/meta")
        out, _ = hay(store, "rebuild", "--yes")
        check(re.search(rf"Rebuilt {len(objects)} objects in 2 buckets", out), out)
        store.start()
        client = Client(store)
        check(client.get("second", "plain-1").status == 403, "rights are not in the data files, yet the key has them")
        hay(store, "bucket", "allow", "second", "--read", "--key", s3lib.KEY)
        for bucket in ("demo", "second"):
            expected = sorted((k for b, k in objects if b == bucket), key=str.encode)
            check(client.keys(bucket) == expected, f"{bucket} lists {client.keys(bucket)}, not {expected}")
        for (bucket, name), (body, etag) in objects.items():
            answer = client.get(bucket, name)
            check(answer.status == 200 and answer.body == body, f"{bucket}/{name} answered {answer.status} {answer.code}")
            check(answer.headers["etag"] == etag, f"{bucket}/{name}: ETag {answer.headers['etag']}, was {etag}")
            if name.startswith(("dir/", "plain")):
                check(answer.headers.get("content-type") == "text/x-y" and "x-amz-meta-number" in answer.headers,
                      f"{bucket}/{name} lost its headers: {answer.headers}")
        check(client.get("zweiter", "plain-1").status == 200, "the alias is lost")
        check(client.put("demo", "after", b"v").status == 200 and client.get("demo", "after").body == b"v", "no new write")
        return out.splitlines()[0]
