"""Bad input of an operator or of the disk: each gets an answer that says what to do, nothing is half written, and reads of what
is good go on."""
import contextlib
import glob
import os
import re
import shutil
import socket
import subprocess
import time

import s3lib
from cli import hay, hay_json, running, until
from s3lib import Client, Store, describe
from suite import Skip, case, check


def refused(store, *words, arguments=(), env=None, user=None):
    """A start that must end with exit code 1 and a message with these words (regular expressions)."""
    command = [s3lib.binary(), "-c", store.config, "server", "--single-node", *arguments]
    if user is not None:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, env={**os.environ, **(env or {})},
                              stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        raise AssertionError("the server started although it must not") from None
    text = done.stdout + done.stderr
    check(done.returncode == 1, f"exit {done.returncode}: {text[-800:]}")
    for word in words:
        check(re.search(word, text), f"the message lacks \"{word}\": {text[-800:]}")
    return text


@case(group="cli")
def port_in_use():
    with contextlib.closing(Store()) as store, socket.create_server(("::", 0), family=socket.AF_INET6) as s:
        store.port = s.getsockname()[1]
        with open(store.config, encoding="ascii") as f:
            text = re.sub(r'"\[::\]:\d+"', f'"[::]:{store.port}"', f.read())
        with open(store.config, "w", encoding="ascii") as f:
            f.write(text)
        refused(store, "in use", "api_bind_addr", str(store.port))


@case(group="cli")
def directory_locked_by_another_process():
    with running() as store, contextlib.closing(Store()) as second:
        with open(store.config, encoding="ascii") as f:
            text = f.read().replace(str(store.port), str(second.port)).replace(str(store.admin_port), str(second.admin_port))
        with open(second.config, "w", encoding="ascii") as f:
            f.write(text)
        refused(second, "another hayloft", "stop it")
        # The data directory alone, with other metadata.
        with open(second.config, "w", encoding="ascii") as f:
            f.write(text.replace(f"{store.dir}/meta", f"{second.dir}/meta"))
        refused(second, "data_dir|data")
        check(Client(store).put("demo", "k", b"v").status == 200, "the first server was disturbed")


@case(group="cli")
def directory_not_writable():
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        raise Skip("needs root and setpriv, to start the server as another user")
    with contextlib.closing(Store()) as store:
        os.chmod(store.dir, 0o755)
        os.chmod(store.config, 0o644)
        binary = shutil.copy(s3lib.binary(), f"{store.dir}/hayloft")  # the build may lie where other users cannot go
        os.chmod(binary, 0o755)
        old = os.environ.get("HAYLOFT")
        os.environ["HAYLOFT"] = binary
        try:
            refused(store, f"{store.dir}/meta", "may not write|permission", user=65534)
            os.chown(f"{store.dir}/meta", 65534, 65534)
            refused(store, "data_dir", f"{store.dir}/data", "may not write|permission", user=65534)
        finally:
            os.environ.pop("HAYLOFT")
            if old is not None:
                os.environ["HAYLOFT"] = old


@case(group="cli")
def disk_not_mounted():
    """The mount point is empty: nothing is written beneath it, and after mounting all is there."""
    with running() as store:
        client = Client(store)
        client.put("demo", "k", b"v" * 100_000)
        store.stop()
        os.rename(f"{store.dir}/data", f"{store.dir}/unmounted")
        os.mkdir(f"{store.dir}/data")
        refused(store, "mount", f"{store.dir}/data")
        check(os.listdir(f"{store.dir}/data") == [], f"it wrote beneath: {os.listdir(f'{store.dir}/data')}")
        os.rmdir(f"{store.dir}/data")
        os.rename(f"{store.dir}/unmounted", f"{store.dir}/data")
        store.start()
        check(Client(store).get("demo", "k").body == b"v" * 100_000, "the object is lost")


@case(group="cli")
def data_of_another_store():
    with running() as store, running() as other:
        store.stop()
        other.stop()
        shutil.rmtree(f"{store.dir}/data")
        shutil.copytree(f"{other.dir}/data", f"{store.dir}/data")
        refused(store, "different stores|another store|wrong cluster|WRONG_CLUSTER", "check|directory")


@case(group="cli")
def damaged_object():
    """A flipped byte in a volume: that object answers an error, the scrub names file, place and owner, others are read."""
    with running() as store:
        client = Client(store)
        bodies = {f"k{i}": describe(f"k{i}", "w", i, 300_000) for i in range(6)}
        for key, body in bodies.items():
            check(client.put("demo", key, body).status == 200, "PUT failed")
        store.stop()
        needle, found = bodies["k3"][150_000:150_032], None
        for path in glob.glob(f"{store.dir}/data/**/*.vol", recursive=True):
            with open(path, "r+b") as f:
                data = f.read()
                # The body repeats 32 bytes: any place that is inside of it will do.
                at = data.find(b"k3|w|3|")
                if at >= 0:
                    found = path
                    f.seek(at + 150_000)
                    byte = f.read(1)[0]
                    f.seek(at + 150_000)
                    f.write(bytes([byte ^ 0x10]))
        check(found and needle, "the object is in no volume")
        store.start()
        client = Client(store)
        try:
            answer = client.get("demo", "k3")
            check(answer.status >= 500, f"a damaged object answered {answer.status}")
        except (OSError, s3lib.http.client.HTTPException):
            pass  # the head was sent already: the connection is cut, so that nobody takes the bytes for good
        client.close()
        for key in ("k0", "k2", "k4", "k5"):
            check(client.get("demo", key).body == bodies[key], f"{key} beside it is not read")
        part = client.get("demo", "k3", headers={"range": "bytes=0-999"})
        check(part.status == 206 and part.body == bodies["k3"][:1000], "an undamaged range of it is not read")
        hay(store, "scrub", "start")
        until("the scrub's finding", 30, lambda: hay_json(store, "scrub", "status")["damagedRecords"] > 0)
        out, _ = hay(store, "scrub", "status")
        check("k3" in out, f"scrub status does not name the object: {out}")
        number = os.path.basename(found).split(".")[0].lstrip("0")
        check(re.search(rf"volume[ /s]*0*{number}\b|{os.path.basename(found)}", store.log_tail(20000)),
              f"the log does not name the volume {found}: {store.log_tail()}")
        check(client.put("demo", "k3", b"new").status == 200 and client.get("demo", "k3").body == b"new", "no overwrite")


@case(group="cli")
def damaged_metadata():
    """Damage in the log or in the names: the start names the file and the command that repairs, and that command does."""
    with running() as store:
        client = Client(store)
        for i in range(50):
            client.put("demo", f"k{i}", describe(f"k{i}", "w", i, 2000))
        store.stop()  # with a checkpoint
        files = glob.glob(f"{store.dir}/meta/kv/*.sst")
        check(files, f"no table after a checkpoint: {os.listdir(f'{store.dir}/meta/kv')}")
        for path in files:
            with open(path, "r+b") as f:
                data = f.read()
                f.seek(0)
                f.write(bytes(b ^ 0xff for b in data[:len(data) // 2]))
        done = subprocess.run([s3lib.binary(), "-c", store.config, "server", "--single-node"], capture_output=True, text=True,
                              timeout=20, check=False, env={**os.environ, **store.env})
        check(done.returncode == 1, f"exit {done.returncode}: {done.stderr[-500:]}")
        check("rebuild" in done.stderr and re.search(r"kv|\.sst", done.stderr), f"message: {done.stderr[-600:]}")
        hay(store, "rebuild", "--yes")
        store.start()
        client = Client(store)
        for i in range(50):
            check(client.get("demo", f"k{i}").body == describe(f"k{i}", "w", i, 2000), f"k{i} is not there after a rebuild")


@case(group="cli")
def damaged_log():
    """Damage in the middle of the log is not taken for its end: acknowledged writes would be lost without a word."""
    with running() as store:
        client = Client(store)
        for i in range(40):
            client.put("demo", f"k{i}", describe(f"k{i}", "w", i, 2000))
        store.kill()  # no checkpoint: the log is needed
        hit = False
        for path in glob.glob(f"{store.dir}/meta/log/*.log"):
            with open(path, "r+b") as f:
                data = f.read()
                at = data.find(b"k20|w|20|")
                if at >= 0:
                    hit = True
                    f.seek(at + 100)
                    f.write(bytes([data[at + 100] ^ 1]))
                    name = path
        check(hit, "the entry is not in the log")
        refused(store, "log", os.path.basename(name), "rebuild|repair|backup")


@case(group="cli")
def configuration_errors():
    with contextlib.closing(Store()) as store:
        with open(store.config, encoding="ascii") as f:
            good = f.read()

        def broken(old, new, *words):
            with open(store.config, "w", encoding="ascii") as f:
                f.write(good.replace(old, new))
            line = next(i for i, text in enumerate(good.replace(old, new).splitlines(), 1) if new.strip().splitlines()[0] in text)
            refused(store, f"{re.escape(store.config)}:{line}:", *words)
            hay(store, "config", "check", code=1)

        broken("metadata_dir =", "metadata_dri =", "metadata_dir")  # says what was meant
        broken("\ndata_dir =", "\ndata_dir = = ", "data_dir|value|expected")
        broken("[admin]", "[admn]", "admin")
        broken("\ndata_dir", "\nblock_size = \"four\"\ndata_dir", "block_size")
        broken("\ndata_dir", "\ns3_region = \"x\"\ndata_dir", "s3_api")  # in the wrong section
        with open(store.config, "w", encoding="ascii") as f:
            f.write(good)
        hay(store, "config", "check")
        check("HAYLOFT_BLOCK_SIZE" in refused(store, "HAYLOFT_BLOCK_SIZE", env={"HAYLOFT_BLOCK_SIZE": "1 byte"}), "")


@case(group="cli")
def secret_that_all_can_read():
    with contextlib.closing(Store()) as store:
        with open(store.config, "a", encoding="ascii") as f:
            f.write('admin_token = "very secret"\n')
        os.chmod(store.config, 0o644)
        text = refused(store, "chmod 600", re.escape(store.config))
        check("very secret" not in text, "the secret is printed")
        os.chmod(store.config, 0o600)
        token = f"{store.dir}/token"
        with open(token, "w", encoding="ascii") as f:
            f.write("very secret")
        os.chmod(token, 0o644)
        with open(store.config, encoding="ascii") as f:
            text = f.read().replace('admin_token = "very secret"', f'admin_token_file = "{token}"')
        with open(store.config, "w", encoding="ascii") as f:
            f.write(text)
        refused(store, "chmod 600", re.escape(token))


@case(group="cli")
def disk_full():
    """Writes get 507, reads and deletes go on, writing resumes when there is room; no half object."""
    if os.geteuid() != 0:
        raise Skip("mounting a small file system needs root")
    with contextlib.closing(Store()) as store:
        small = f"{store.dir}/data"
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", small], capture_output=True, check=False).returncode:
            raise Skip("a small file system cannot be mounted here")
        try:
            store.start()
            client, bodies = Client(store), {}
            for i in range(200):
                body = describe(f"k{i}", "w", i, 1_000_000)
                answer = client.put("demo", f"k{i}", body)
                if answer.status != 200:
                    break
                bodies[f"k{i}"] = body
            check(answer.status == 507, f"a full disk answered {answer.status} {answer.code}")
            check(len(bodies) > 40, f"full after {len(bodies)} MB of 96 MiB")
            check(client.get("demo", f"k{i}").status == 404, "a refused object is there")
            check(client.put("demo", "tiny", b"x" * 100).status in (200, 507), "a tiny object")
            for key, body in list(bodies.items())[::7]:
                check(client.get("demo", key).body == body, f"{key} is not read on a full disk")
            for key in list(bodies)[::2]:  # every volume keeps a live half: only compaction makes room
                answer = client.delete("demo", key)
                check(answer.status == 204, f"DELETE on a full disk answered {answer.status} {answer.code}")
                del bodies[key]
            until("room after deletes", 90, lambda: client.put("demo", "again", describe("again", "w", 1, 1_000_000)).status == 200)
            for key, body in bodies.items():
                check(client.get("demo", key).body == body, f"{key} is damaged after the disk was full")
            check(store.stop() == 0, f"it does not end in order: {store.log_tail()}")
            store.start()
            client = Client(store)
            check(all(client.get("demo", k).body == b for k, b in bodies.items()), "an object is lost after a restart")
            return f"{len(bodies)} objects left"
        finally:
            if store.process is not None and store.process.poll() is None:
                store.kill()
            subprocess.run(["umount", "-l", small], check=False)


@case(group="cli")
def truncated_upload_and_wrong_checksum():
    with running() as store:
        client = Client(store)
        for size in (2000, 3_000_000):
            headers = s3lib.sign("PUT", "/demo/cut", [], {"host": f"localhost:{store.port}"}, "UNSIGNED-PAYLOAD")
            with socket.create_connection(("localhost", store.port)) as s:
                head = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
                s.sendall(f"PUT /demo/cut HTTP/1.1\r\n{head}Content-Length: {size}\r\n\r\n".encode() + b"x" * (size // 2))
            time.sleep(0.3)
            check(client.get("demo", "cut").status == 404, "a truncated upload made an object")
            answer = client.put("demo", "bad", b"x" * size, headers={"x-amz-checksum-crc32": "AAAAAA=="})
            check(answer.status == 400 and client.get("demo", "bad").status == 404, f"a wrong checksum: {answer.status}")
            answer = client.put("demo", "bad", b"x" * size, payload_hash="0" * 64)
            check(answer.status == 400 and client.get("demo", "bad").status == 404, f"a wrong SHA-256: {answer.status}")
        skewed = s3lib.datetime.datetime.now(s3lib.datetime.timezone.utc) - s3lib.datetime.timedelta(hours=1)
        headers = s3lib.sign("GET", "/demo", [], {"host": f"localhost:{store.port}"}, "UNSIGNED-PAYLOAD", now=skewed)
        connection = client.connect()
        connection.request("GET", "/demo", headers=headers)
        body = connection.getresponse().read().decode()
        check("RequestTimeTooSkewed" in body and skewed.strftime("%Y%m%dT%H") in body.replace("-", "").replace(":", ""),
              f"clock skew: {body}")
        check(hay_json(store, "stats")["objects"] == 0, "something was counted")
