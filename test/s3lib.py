"""What the Python tests share: a store as a child process, and a small signing S3 client on the standard library only, so
that kill tests and raw-request tests need no package. The signer is written from the AWS documentation, not from ours.
"""
import contextlib
import datetime
import hashlib
import hmac
import http.client
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEY = "GK" + "31c2f218a2e44f485b94239e"[:24]
SECRET = "b892c0665f0ada8a4755dae98baa3b133590e11dae3bcc1f9d769d67f16c3835"
REGION = "us-east-1"


def binary():
    """The store under test: HAYLOFT names it, else the test build, else the release build."""
    for path in (os.environ.get("HAYLOFT"), f"{ROOT}/build-test/hayloft", f"{ROOT}/build/hayloft"):
        if path and os.path.exists(path):
            return os.path.realpath(path)
    raise SystemExit("no build of hayloft: run tools/build.sh build-test")


def free_port():
    with socket.socket(socket.AF_INET6) as s:
        s.bind(("::1", 0))
        return s.getsockname()[1]


class Store:
    """A single node in a directory of its own, with one key that may do everything and one bucket."""

    def __init__(self, directory=None, tls=False, config="", bucket="demo", env=None, data_dir=None, meta_dir=None):
        self.own = directory is None
        self.dir = directory or tempfile.mkdtemp(prefix="hayloft-test-", dir=os.environ.get("HAYLOFT_TEST_TMP"))
        self.port, self.admin_port = free_port(), free_port()
        self.tls, self.bucket, self.env = tls, bucket, env or {}
        self.process = None
        meta_dir = meta_dir or f"{self.dir}/meta"
        os.makedirs(meta_dir, mode=0o700, exist_ok=True)
        data_dir = data_dir or f"{self.dir}/data"
        os.makedirs(data_dir, mode=0o700, exist_ok=True)
        lines = [f'metadata_dir = "{meta_dir}"', f'data_dir = "{data_dir}"', config, "[s3_api]",
                 f'api_bind_addr = "[::]:{self.port}"']
        if tls:
            self.make_certificate()
            lines += [f'tls_certificate = "{self.dir}/tls.crt"', f'tls_key = "{self.dir}/tls.key"']
        lines += ["[admin]", f'api_bind_addr = "127.0.0.1:{self.admin_port}"', 'metrics_require_token = false']
        self.config = f"{self.dir}/hayloft.toml"
        with open(self.config, "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write("\n".join(lines) + "\n")

    def make_certificate(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", f"{self.dir}/tls.key", "-out", f"{self.dir}/tls.crt", "-days", "30", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"],
                       check=True, capture_output=True)
        os.chmod(f"{self.dir}/tls.key", 0o600)

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://localhost:{self.port}"

    def start(self, wait=True, env=None, arguments=()):
        environment = {**os.environ, "HAYLOFT_DEFAULT_ACCESS_KEY": KEY, "HAYLOFT_DEFAULT_SECRET_KEY": SECRET,
                       "HAYLOFT_DEFAULT_BUCKET": self.bucket, **self.env, **(env or {})}
        self.log = open(f"{self.dir}/server.log", "ab")
        self.process = subprocess.Popen(
            [binary(), "-c", self.config, "server", "--single-node", "--default-access-key",
             f"--default-bucket={self.bucket}", *arguments],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the store ended with {self.process.returncode}:\n{self.log_tail()}")
            with contextlib.suppress(OSError):
                client = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=5)
                client.request("GET", "/health")
                if client.getresponse().status == 200:
                    return
            time.sleep(0.01)
        raise RuntimeError(f"the store is not ready after {seconds} s:\n{self.log_tail()}")

    def log_tail(self, size=3000):
        with open(f"{self.dir}/server.log", "rb") as f:
            return f.read()[-size:].decode(errors="replace")

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds=30):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(seconds)
        return self.process.returncode if self.process else None

    def cli(self, *arguments, check=True):
        return subprocess.run([binary(), "-c", self.config, *arguments], capture_output=True, text=True, check=check)

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(next(line for line in f if line.startswith("VmRSS")).split()[1])

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()
        if self.own:
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.close()


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def sign(method, path, query, headers, payload_hash, key=KEY, secret=SECRET, region=REGION, now=None):
    """SigV4 (Amazon S3 API Reference, "Authenticating Requests"): returns the headers with Authorization. path is the
    percent-encoded path, query a list of (name, value), headers a dict that includes host."""
    now = now or datetime.datetime.now(datetime.timezone.utc)
    stamp, date = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {**headers, "x-amz-date": stamp, "x-amz-content-sha256": payload_hash}
    low = {k.lower(): " ".join(str(v).split()) for k, v in headers.items()}
    signed = ";".join(sorted(low))
    quoted = sorted((urllib.parse.quote(k, safe="-_.~"), urllib.parse.quote(v, safe="-_.~")) for k, v in query)
    canonical = "\n".join([method, path, "&".join(f"{k}={v}" for k, v in quoted),
                           "".join(f"{k}:{low[k]}\n" for k in sorted(low)), signed, payload_hash])
    scope = f"{date}/{region}/s3/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signing_key = _hmac(_hmac(_hmac(_hmac(b"AWS4" + secret.encode(), date), region), "s3"), "aws4_request")
    signature = hmac.new(signing_key, to_sign.encode(), hashlib.sha256).hexdigest()
    headers["Authorization"] = (f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={signed}, "
                                f"Signature={signature}")
    return headers


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def code(self):
        """The S3 error code of an XML answer, or None."""
        start = self.body.find(b"<Code>")
        return self.body[start + 6:self.body.find(b"</Code>")].decode() if start >= 0 else None


class Client:
    """One keep-alive connection. Raises OSError or http.client.HTTPException when the store is away."""

    def __init__(self, store, key=KEY, secret=SECRET, timeout=60):
        self.store, self.key, self.secret, self.timeout = store, key, secret, timeout
        self.connection = None

    def connect(self):
        if self.connection is None:
            if self.store.tls:
                context = ssl.create_default_context(cafile=f"{self.store.dir}/tls.crt")
                self.connection = http.client.HTTPSConnection("localhost", self.store.port, timeout=self.timeout,
                                                              context=context)
            else:
                self.connection = http.client.HTTPConnection("localhost", self.store.port, timeout=self.timeout)
        return self.connection

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def request(self, method, bucket="", key="", query=(), headers=None, body=b"", payload_hash=None, signed=True):
        path = "/" + urllib.parse.quote(bucket) + ("/" + urllib.parse.quote(key, safe="/-_.~") if key else "")
        query = list(query.items()) if isinstance(query, dict) else list(query)
        text = urllib.parse.urlencode(query, quote_via=urllib.parse.quote, safe="-_.~")
        headers = {"host": f"localhost:{self.store.port}", **(headers or {})}
        if payload_hash is None:
            payload_hash = hashlib.sha256(body).hexdigest()
        if signed:
            headers = sign(method, path, query, headers, payload_hash, self.key, self.secret)
        try:
            connection = self.connect()
            connection.request(method, path + ("?" + text if text else ""), body=body, headers=headers)
            response = connection.getresponse()
            answer = Answer(response.status, dict((k.lower(), v) for k, v in response.getheaders()), response.read())
            if response.will_close:
                self.close()
            return answer
        except BaseException:
            self.close()
            raise

    def put(self, bucket, key, body, headers=None, **more):
        return self.request("PUT", bucket, key, body=body, headers=headers, **more)

    def get(self, bucket, key, headers=None, query=()):
        return self.request("GET", bucket, key, headers=headers, query=query)

    def delete(self, bucket, key):
        return self.request("DELETE", bucket, key)

    def keys(self, bucket, prefix=""):
        """All keys below a prefix, through every page."""
        found, token = [], None
        while True:
            query = [("list-type", "2"), ("prefix", prefix), ("encoding-type", "url")]
            if token:
                query.append(("continuation-token", token))
            answer = self.request("GET", bucket, query=query)
            if answer.status != 200:
                raise RuntimeError(f"listing answered {answer.status}: {answer.body[:300]}")
            text = answer.body.decode()
            found += [urllib.parse.unquote(part.split("</Key>")[0]) for part in text.split("<Key>")[1:]]
            if "<IsTruncated>true" not in text:
                return found
            token = text.split("<NextContinuationToken>")[1].split("<")[0]


def describe(key, writer, sequence, size):
    """A body that says which write it is: a header line, then bytes derived from it."""
    head = f"{key}|{writer}|{sequence}|{size}|".encode()
    seed = hashlib.sha256(head).digest()
    body = head + seed * (max(0, size - len(head)) // 32 + 1)
    return body[:max(size, len(head))]


def undescribe(body):
    """(key, writer, sequence) of a body made by describe, or None when it is damaged."""
    parts = body[:200].split(b"|", 4)
    if len(parts) < 5:
        return None
    try:
        key, writer, sequence, size = parts[0].decode(), parts[1].decode(), int(parts[2]), int(parts[3])
    except ValueError:
        return None
    return (key, writer, sequence) if describe(key, writer, sequence, size) == body else None
