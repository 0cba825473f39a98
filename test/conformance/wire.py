"""Requests byte by byte: sockets, heads, aws-chunked bodies and the checksums, written from the AWS pages and the RFCs so
that they are an independent truth."""
import base64
import hashlib
import hmac
import http.client
import io
import socket
import ssl
import zlib

import s3lib

# ---- checksums ----


def _table(polynomial):
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (polynomial if i & 1 else 0)
        table.append(i)
    return table


def _reflected(table, mask):
    def crc(data):
        value = mask
        for byte in data:
            value = value >> 8 ^ table[(value ^ byte) & 255]
        return value ^ mask
    return crc


crc32c = _reflected(_table(0x82F63B78), 0xFFFFFFFF)                        # RFC 3720 appendix B.4
crc64nvme = _reflected(_table(0x9A6C9329AC4BC9B5), 0xFFFFFFFFFFFFFFFF)     # NVM Express, CRC-64/NVME

DIGESTS = {
    "CRC32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "CRC32C": lambda data: crc32c(data).to_bytes(4, "big"),
    "CRC64NVME": lambda data: crc64nvme(data).to_bytes(8, "big"),
    "SHA1": lambda data: hashlib.sha1(data).digest(),
    "SHA256": lambda data: hashlib.sha256(data).digest(),
}


def checksum(algorithm, data):
    return base64.b64encode(DIGESTS[algorithm](data)).decode()


def composite(algorithm, parts):
    joined = b"".join(DIGESTS[algorithm](part) for part in parts)
    return f"{base64.b64encode(DIGESTS[algorithm](joined)).decode()}-{len(parts)}"


def header_of(algorithm):
    return "x-amz-checksum-" + algorithm.lower()


def md5(data):
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def etag(data):
    return f'"{hashlib.md5(data).hexdigest()}"'


# ---- aws-chunked ----


def pieces(data, size):
    return [data[i:i + size] for i in range(0, len(data), size)]


def unsigned_chunks(data, size=65536, trailer=None):
    """STREAMING-UNSIGNED-PAYLOAD-TRAILER; trailer a line without its end, or None."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces(data, size)) + b"0\r\n"
    return body + (trailer.encode() + b"\r\n" if trailer else b"") + b"\r\n"


class Chain:
    """The signatures of a chunked upload ("Signature calculations: transferring a payload in multiple chunks")."""

    def __init__(self, headers, secret=s3lib.SECRET):
        credential = headers["Authorization"].split("Credential=")[1].split(",")[0].split("/", 1)[1]
        self.stamp, self.scope = headers["x-amz-date"], credential
        self.previous = headers["Authorization"].rsplit("Signature=", 1)[1]
        key = b"AWS4" + secret.encode()
        for part in credential.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        self.key = key

    def sign(self, kind, *hashes):
        text = "\n".join([kind, self.stamp, self.scope, self.previous, *hashes])
        self.previous = hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()
        return self.previous

    def chunk(self, data):
        signature = self.sign("AWS4-HMAC-SHA256-PAYLOAD", hashlib.sha256(b"").hexdigest(), hashlib.sha256(data).hexdigest())
        return b"%x;chunk-signature=%s\r\n" % (len(data), signature.encode())

    def trailer(self, line):
        return self.sign("AWS4-HMAC-SHA256-TRAILER", hashlib.sha256(line.encode() + b"\n").hexdigest())


def signed_chunks(headers, data, size=65536, trailer=None, end=b"\r\n", secret=s3lib.SECRET):
    """The body for a head signed with a STREAMING-AWS4-HMAC-SHA256-PAYLOAD hash; with trailer, its -TRAILER form."""
    chain = Chain(headers, secret)
    body = b"".join(chain.chunk(p) + p + b"\r\n" for p in pieces(data, size)) + chain.chunk(b"")
    if trailer is None:
        return body + b"\r\n"
    return body + trailer.encode() + end + b"x-amz-trailer-signature:" + chain.trailer(trailer).encode() + b"\r\n\r\n"


# ---- sockets ----


class Reply:
    """http.client's parser over bytes that were read, so that several answers on one socket can be told apart."""

    def __init__(self, status, headers, body, will_close):
        self.status, self.headers, self.body, self.will_close = status, headers, body, will_close

    @property
    def code(self):
        start = self.body.find(b"<Code>")
        return self.body[start + 6:self.body.find(b"</Code>")].decode() if start >= 0 else None


class _Fake:
    def __init__(self, file):
        self.file = file

    def makefile(self, *_):
        return self.file


class _Kept(io.BufferedIOBase):
    """A file that http.client may close without closing ours."""

    def __init__(self, file):
        self.inner = file

    def readable(self):
        return True

    def read(self, *size):
        return self.inner.read(*size)

    def readinto(self, target):
        return self.inner.readinto(target)

    def readline(self, *size):
        return self.inner.readline(*size)

    def close(self):
        pass

    def flush(self):
        pass


class Wire:
    def __init__(self, store, timeout=20):
        self.store = store
        self.socket = socket.create_connection(("localhost", store.port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if store.tls:
            context = ssl.create_default_context(cafile=f"{store.dir}/tls.crt")
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, *data):
        self.socket.sendall(b"".join(d.encode("latin-1") if isinstance(d, str) else d for d in data))
        return self

    def interim(self):
        """The status of an interim answer ("HTTP/1.1 100 Continue")."""
        line = self.file.readline()
        self.file.readline()
        return int(line.split()[1])

    def receive(self, method="GET"):
        response = http.client.HTTPResponse(_Fake(_Kept(self.file)), method=method)
        response.begin()
        headers = {k.lower(): v for k, v in response.getheaders()}
        reply = Reply(response.status, headers, response.read(), response.will_close)
        response.close()
        return reply

    def closed(self):
        """Whether the other side ended the connection, now or within the timeout."""
        try:
            return self.file.read(1) == b""
        except ConnectionError:
            return True
        except ssl.SSLError:
            return True

    def silent(self, seconds):
        """Whether nothing comes for a while."""
        before = self.socket.gettimeout()
        self.socket.settimeout(seconds)
        try:
            return self.file.read(1) == b"" and False
        except (TimeoutError, socket.timeout):
            # A buffered reader refuses to go on after a timeout.
            self.file = self.socket.makefile("rb")
            return True
        finally:
            self.socket.settimeout(before)


def head(store, method, path, headers=None, query=(), payload_hash="UNSIGNED-PAYLOAD", account=None, signed=True,
         extra="", now=None, host=None):
    """The bytes of a request head, and its headers. extra: lines that are sent as they are, unsigned."""
    headers = {"host": host or f"localhost:{store.port}", **(headers or {})}
    if signed:
        key, secret = (account.key, account.secret) if account else (s3lib.KEY, s3lib.SECRET)
        headers = s3lib.sign(method, path, list(query), headers, payload_hash, key, secret, now=now)
    text = "&".join(f"{k}={v}" if v else k for k, v in query)
    lines = [f"{method} {path}{'?' + text if text else ''} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n" + extra + "\r\n").encode(), headers
