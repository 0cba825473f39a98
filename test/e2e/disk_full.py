#!/usr/bin/env python3
"""Full disks, on small ext4 images behind loop devices: data and metadata on one, metadata on its own, inodes used up, room taken
by others, a file system that turns read-only. While a disk is full every acknowledged write is read, deletes work, and writing
resumes by itself when there is room; also after kill -9 and restarts in that state.

Run alone it prints a line a case; test/e2e/run.py runs the same cases.
"""
import argparse
import base64
import concurrent.futures
import contextlib
import hashlib
import http.client
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import s3lib  # noqa: E402
from s3lib import Client, Store, describe, undescribe  # noqa: E402
from suite import CASES, Report, Skip, case, check  # noqa: E402

BUCKET = "demo"
THREADS = 4
PART = 5 << 20
RESUME_S = 90  # within which writing must resume


def shell(*command, ok=True):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    check(not ok or done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}")
    return done


class Disk:
    """An ext4 image of some MiB, mounted. No blocks are kept for root: the store runs as root here."""

    def __init__(self, mib=64, options=()):
        if os.geteuid() != 0:
            raise Skip("mounting a small file system needs root")
        for program in ("losetup", "mkfs.ext4", "mount", "umount"):
            if shutil.which(program) is None:
                raise Skip(f"there is no {program} on this machine")
        self.work = tempfile.mkdtemp(prefix="hayloft-disk-", dir=os.environ.get("HAYLOFT_TEST_TMP"))
        self.image, self.path, self.loop = f"{self.work}/image", f"{self.work}/mounted", None
        os.mkdir(self.path)
        with open(self.image, "wb") as f:
            f.truncate(mib << 20)
            os.posix_fallocate(f.fileno(), 0, mib << 20)
        made = shell("losetup", "-f", "--show", self.image, ok=False)
        if made.returncode:
            shutil.rmtree(self.work)
            raise Skip(f"no loop device: {made.stderr.strip()}")
        self.loop = made.stdout.strip()
        shell("mkfs.ext4", "-q", "-m", "0", *options, self.loop)
        if shell("mount", self.loop, self.path, ok=False).returncode:
            self.close()
            raise Skip("an ext4 image cannot be mounted here")

    def free(self):
        st = os.statvfs(self.path)
        return st.f_bavail * st.f_frsize

    def inodes(self):
        return os.statvfs(self.path).f_favail

    def take(self, name="others", leave=0):
        """Another program takes the room, but for so many bytes."""
        with open(f"{self.path}/{name}", "wb") as f:
            with contextlib.suppress(OSError):
                while self.free() > leave:
                    f.write(b"\x5a" * min(1 << 20, max(4096, self.free() - leave)))
                    f.flush()
            with contextlib.suppress(OSError):
                os.fsync(f.fileno())

    def give(self, name="others"):
        os.unlink(f"{self.path}/{name}")

    def unmount(self):
        for _ in range(50):
            if shell("umount", self.path, ok=False).returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError("the disk is still in use")

    def close(self):
        shell("umount", "-l", self.path, ok=False)
        if self.loop:
            shell("losetup", "-d", self.loop, ok=False)
        shutil.rmtree(self.work, ignore_errors=True)


class Kept:
    """What was acknowledged, and a store that may be killed and started again."""

    def __init__(self, store):
        self.store, self.lock = store, threading.Lock()
        self.objects = {}  # key: (sequence, size)
        self.multipart = {}  # key: [sequence of each part]
        self.sequence = 0
        self.local = threading.local()

    def client(self):
        if getattr(self.local, "generation", None) != id(self.store.process):
            self.local.generation, self.local.client = id(self.store.process), Client(self.store)
        return self.local.client

    def send(self, method, key, body, **more):
        """A request whose answer may come before its body was taken, after which the server hangs up."""
        client = self.client()
        connection = client.connect()
        try:
            return client.request(method, BUCKET, key, body=body, **more)
        except (BrokenPipeError, ConnectionResetError):
            if connection.sock is None:  # it was closed by the client's own hand: what was received is lost
                return s3lib.Answer(507, {}, b"<Code>InsufficientStorage</Code>")
            raise

    def next(self):
        with self.lock:
            self.sequence += 1
            return self.sequence

    def put(self, key, size, headers=None):
        """The status of a PUT; remembers it when it was acknowledged."""
        sequence = self.next()
        answer = self.send("PUT", key, describe(key, "full", sequence, size), headers=headers)
        if answer.status == 200:
            with self.lock:
                self.objects[key] = (sequence, size)
        else:
            check(answer.status in (503, 507), f"PUT {key} answered {answer.status} {answer.code}")
            check(answer.status == 503 or answer.code == "InsufficientStorage", f"507 with code {answer.code}")
        return answer.status

    def fill(self, prefix, size, count_max=200_000, headers=None, pad=0):
        """PUTs until each thread met 507 three times running."""
        def one(thread):
            refused = written = 0
            for i in range(count_max // THREADS):
                status = self.put(f"{prefix}/{thread}/{i:06}" + "k" * pad, size, headers() if headers else None)
                refused = refused + 1 if status == 507 else 0
                written += status == 200
                if refused == 3:
                    return written
            raise AssertionError(f"{count_max} objects of {size} bytes and the disk is not full")
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            return sum(pool.map(one, range(THREADS)))

    def upload(self, key, parts_max=1000):
        """Parts until 507; then the upload is completed, which a full disk must not refuse."""
        client = self.client()
        answer = client.request("POST", BUCKET, key, query=[("uploads", "")])
        if answer.status == 507:
            return 0
        check(answer.status == 200, f"CreateMultipartUpload answered {answer.status} {answer.code}")
        upload = answer.body.decode().split("<UploadId>")[1].split("<")[0]
        etags, sequences = [], []
        for number in range(1, parts_max + 1):
            sequence = self.next()
            body = describe(key, "part", sequence, PART)
            answer = self.send("PUT", key, body, query=[("partNumber", str(number)), ("uploadId", upload)])
            if answer.status == 507:
                break
            check(answer.status == 200, f"UploadPart answered {answer.status} {answer.code}")
            etags.append(answer.headers["etag"])
            sequences.append(sequence)
        query = [("uploadId", upload)]
        if not etags:
            answer = client.request("DELETE", BUCKET, key, query=query)
            check(answer.status == 204, f"AbortMultipartUpload on a full disk answered {answer.status} {answer.code}")
            return 0
        xml = "".join(f"<Part><PartNumber>{i}</PartNumber><ETag>{e}</ETag></Part>" for i, e in enumerate(etags, 1))
        answer = client.request("POST", BUCKET, key, query=query,
                                body=f"<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>".encode())
        check(answer.status == 200, f"CompleteMultipartUpload on a full disk answered {answer.status} {answer.code}")
        with self.lock:
            self.multipart[key] = sequences
        return len(etags)

    def delete(self, key):
        answer = self.client().delete(BUCKET, key)
        check(answer.status == 204, f"DELETE on a full disk answered {answer.status} {answer.code}")
        with self.lock:
            self.objects.pop(key, None)
            self.multipart.pop(key, None)

    def delete_many(self, keys):
        for i in range(0, len(keys), 1000):
            some = keys[i:i + 1000]
            body = ("<Delete><Quiet>true</Quiet>" + "".join(f"<Object><Key>{k}</Key></Object>" for k in some) + "</Delete>").encode()
            md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
            answer = self.client().request("POST", BUCKET, query=[("delete", "")], body=body, headers={"content-md5": md5})
            check(answer.status == 200 and b"<Error>" not in answer.body,
                  f"DeleteObjects of {len(some)} on a full disk answered {answer.status} {answer.body[:300]}")
            with self.lock:
                for key in some:
                    self.objects.pop(key, None)

    def verify_one(self, key):
        sequence, size = self.objects[key]
        answer = self.client().get(BUCKET, key)
        check(answer.status == 200, f"GET {key} answered {answer.status} {answer.code}: an acknowledged write is lost")
        check(answer.body == describe(key, "full", sequence, size),
              f"{key} holds {undescribe(answer.body) or answer.body[:100]}, not write {sequence}")

    def verify_parts(self, key):
        for number, sequence in enumerate(self.multipart[key], 1):
            answer = self.client().get(BUCKET, key, query=[("partNumber", str(number))])
            check(answer.status == 206, f"GET {key} part {number} answered {answer.status} {answer.code}")
            check(undescribe(answer.body) == (key, "part", sequence), f"{key} part {number} holds other bytes")

    def verify(self):
        """Every acknowledged object by GET, some by HEAD, and the list: no more, no less."""
        keys = list(self.objects)
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self.verify_one, keys))
        for key in self.multipart:
            self.verify_parts(key)
        for key in keys[::37]:
            head = self.client().request("HEAD", BUCKET, key)
            check(head.status == 200 and int(head.headers["content-length"]) >= self.objects[key][1], f"HEAD {key}: {head.status}")
        listed = self.client().keys(BUCKET)
        check(listed == sorted([*keys, *self.multipart], key=lambda k: k.encode()),
              f"the list has {len(listed)} keys instead of {len(keys) + len(self.multipart)}")
        return len(listed)

    def resumes(self, key, size, seconds=RESUME_S):
        """Seconds until a PUT of this size works again."""
        begin = time.monotonic()
        while self.put(key, size) != 200:
            check(time.monotonic() - begin < seconds,
                  f"no PUT of {size} bytes {seconds} s after room was made: {self.store.log_tail()}")
            time.sleep(0.2)
        return time.monotonic() - begin

    def restart(self, kill=False):
        if kill:
            self.store.kill()
        else:
            code = self.store.stop()
            check(code == 0, f"the store ended with {code}: {self.store.log_tail()}")
        self.store.start()


@contextlib.contextmanager
def kept(data=None, metadata=None, config=""):
    """A store whose data and metadata lie on disks (the same or different ones); elsewhere where None."""
    store = Store(data_dir=f"{data.path}/data" if data else None, config=config)
    if metadata is not None:
        os.mkdir(f"{metadata.path}/meta", mode=0o700)
        with open(store.config, encoding="ascii") as f:
            text = f.read().replace(f"{store.dir}/meta", f"{metadata.path}/meta")
        with open(store.config, "w", encoding="ascii") as f:
            f.write(text)
    try:
        yield Kept(store.start())
    finally:
        if store.process is not None and store.process.poll() is None:
            store.kill()
        if os.environ.get("HAYLOFT_TEST_KEEP_LOG"):
            shutil.copy(f"{store.dir}/server.log", os.environ["HAYLOFT_TEST_KEEP_LOG"])
        store.close()


@contextlib.contextmanager
def disk(mib=64, options=()):
    made = Disk(mib, options)
    try:
        yield made
    finally:
        made.close()


def noise():
    """Headers that make rows large."""
    return {"x-amz-meta-noise": base64.b64encode(os.urandom(1400)).decode()}


def alive(k):
    check(k.store.process.poll() is None, f"the store ended with {k.store.process.poll()}: {k.store.log_tail()}")


@case(group="cli")
def full_small_objects():
    """Data and metadata on one disk, filled with 4 KiB objects; killed and restarted while it is full; every second deleted."""
    with disk() as d, kept(d, d) as k:
        written = k.fill("a", 4096)
        check(written > 1000, f"full after {written} objects of 4 KiB")
        free = d.free()
        k.verify()
        k.restart(kill=True)
        k.verify()
        k.restart()
        k.verify()
        for status in (k.put("late/small", 4096), k.put("late/large", PART)):
            check(status in (200, 507), f"{status}")
        keys = sorted(k.objects)
        for key in keys[:20]:
            k.delete(key)
        k.delete_many(keys[20::2])
        k.verify()
        first = k.resumes("again", 4096)
        large = k.resumes("again-large", PART)
        more = k.fill("b", 4096)
        check(more > written // 6, f"only {more} objects fit again, after {written}")
        k.verify()
        k.restart(kill=True)
        count = k.verify()
        alive(k)
        return f"{written} until 507 ({free >> 10} KiB free), resumed after {first:.1f} s ({large:.1f} s for 5 MiB), {more} more; {count} right at the end"


@case(group="cli")
def full_large_objects():
    """Objects of 5 MiB, then parts of an upload, which is completed on the full disk; all deleted, and filled again."""
    with disk(96) as d, kept(d, d) as k:
        parts = k.upload("upload/one", 3)
        written = k.fill("a", PART)
        k.delete(sorted(k.objects)[0])
        k.resumes("again", PART)
        parts += k.upload("upload/two")
        check(written >= 3, f"full after {written} objects of 5 MiB")
        k.verify()
        k.restart(kill=True)
        k.verify()
        k.restart()
        k.verify()
        for key in [*k.objects, *list(k.multipart)[:-1]]:
            k.delete(key)
        resumed = k.resumes("again2", PART)
        more = k.fill("b", PART)
        check(more >= written // 2, f"only {more} of 5 MiB fit again, after {written}")
        count = k.verify()
        alive(k)
        return f"{written} objects and {parts} parts until 507, resumed after {resumed:.1f} s, {more} more; {count} right at the end"


@case(group="cli")
def full_metadata_disk():
    """Metadata on a small disk of its own, filled by long keys and large headers."""
    with disk() as d, kept(None, d) as k:
        written = k.fill("a", 4096, headers=noise, pad=700)
        check(written > 500, f"full after {written} objects")
        free = d.free()
        check(re.search("metadata_dir .* is nearly full", k.store.log_tail(100_000)), "no warning names metadata_dir")
        k.verify()
        k.restart(kill=True)
        k.verify()
        check(k.put("late", 4096) in (200, 507), "a late PUT")
        check(k.client().request("PUT", "second-bucket").status in (200, 507), "CreateBucket")
        answer = k.client().put(BUCKET, "copy", b"", headers={"x-amz-copy-source": f"/{BUCKET}/{sorted(k.objects)[0]}"})
        check(answer.status in (200, 507), f"a copy answered {answer.status} {answer.code}")
        if answer.status == 200:
            k.client().delete(BUCKET, "copy")
        keys = sorted(k.objects)
        k.delete_many(keys[:len(keys) * 3 // 4])
        k.verify()
        resumed = k.resumes("again", 4096)
        more = k.fill("b", 4096, headers=noise, pad=700)
        k.restart()
        count = k.verify()
        alive(k)
        return f"{written} objects until 507 ({free >> 10} KiB free), resumed after {resumed:.1f} s, {more} more; {count} right at the end"


def taken_by_others(d, k, leave, headers=None):
    """Another program takes all room under load; then gives it back."""
    stop, seen = threading.Event(), {}

    def load(thread):
        i = 0
        while not stop.is_set():
            try:
                status = k.put(f"load/{thread}/{i % 16}", (500, 4096, 40_000, 300_000)[i % (1 if headers else 4)],
                               headers() if headers else None)
            except (OSError, http.client.HTTPException) as why:
                status = type(why).__name__
            with k.lock:
                seen[status] = seen.get(status, 0) + 1
            i += 1
    threads = [threading.Thread(target=load, args=(t,)) for t in range(THREADS)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    d.take(leave=leave)
    time.sleep(6)
    read = sum(1 for key in list(k.objects)[:50] if k.client().get(BUCKET, key).status == 200)
    alive(k)
    check(read == min(50, len(k.objects)), f"only {read} of 50 objects could be read while the disk was full")
    d.give()
    begin = time.monotonic()
    resumed = k.resumes("others", 4096)
    time.sleep(1)
    stop.set()
    for thread in threads:
        thread.join(60)
    check(time.monotonic() - begin < 60, "writers hang")
    check(set(seen) <= {200, 503, 507}, f"statuses {seen}")
    waited = "the disk is full: writes that are durable" in k.store.log_tail(1 << 20)
    check(seen.get(507) or waited, f"nothing was refused and nothing waited: {seen}")
    alive(k)
    return f"statuses {seen}, resumed after {resumed:.1f} s"


@case(group="cli")
def full_by_others():
    """Other programs fill the disk of data and metadata to the last block, twice, under load, and give it back."""
    with disk() as d, kept(d, d, config='checkpoint_idle = "1s"') as k:
        text = taken_by_others(d, k, 0)
        text += "; " + taken_by_others(d, k, 600 << 10)
        k.restart()
        return f"{text}; {k.verify()} right at the end"


@case(group="cli")
def full_by_others_metadata():
    """The same with metadata on its own disk."""
    with disk() as d, kept(None, d, config='checkpoint_idle = "1s"') as k:
        text = taken_by_others(d, k, 0, noise)
        k.restart(kill=True)
        return f"{text}; {k.verify()} right at the end"


@case(group="cli")
def full_by_others_deletes():
    """Thousands of deletes while others hold every block: the rows gather until kv must flush. They wait or are told to come
    again, reads go on, and all of it ends well when there is room."""
    with disk() as d, kept(None, d, config='write_buffer_size = "512KiB"') as k:
        for i in range(6000):
            k.put(f"a/{i:05}" + "k" * 100, 200)
        k.put("stays", 4096)
        keys = sorted(key for key in k.objects if key.startswith("a/"))
        d.take()
        answers = {}

        def delete(thread):
            client = Client(k.store, timeout=150)
            for key in keys[thread::THREADS]:
                answer = client.delete(BUCKET, key)
                with k.lock:
                    answers[answer.status] = answers.get(answer.status, 0) + 1
                    if answer.status == 204:
                        del k.objects[key]
        pool = concurrent.futures.ThreadPoolExecutor(THREADS)
        work = [pool.submit(delete, t) for t in range(THREADS)]
        time.sleep(8)
        alive(k)
        waiting = sum(not w.done() for w in work)
        k.verify_one("stays")
        d.give()
        for w in work:
            w.result(120)
        pool.shutdown()
        alive(k)
        check(set(answers) <= {204, 503, 507}, f"answers {answers}")
        resumed = k.resumes("again", 4096)
        k.restart(kill=True)
        stalled = "the disk is full: writes that are durable" in k.store.log_tail(100_000)
        return f"answers {answers}, {waiting} threads waited, stalled: {stalled}, resumed after {resumed:.1f} s; {k.verify()} right"


@case(group="cli")
def full_start():
    """A store that was killed under load starts on a disk without a free block, or says what to do; nothing is lost."""
    with disk() as d, kept(d, d) as k:
        for i in range(1500):
            k.put(f"a/{i}", 3000)
        k.store.kill()
        d.take()
        k.store.start(wait=False)
        began = time.monotonic()
        while k.store.process.poll() is None and time.monotonic() - began < 20:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if Client(k.store).get(BUCKET, "a/1").status == 200:
                    break
            time.sleep(0.1)
        if k.store.process.poll() is None:
            k.verify()
            how = "it serves reads"
            status = Client(k.store).put(BUCKET, "late", b"x" * 1000).status
            check(status == 507, f"a PUT answered {status}")
            k.store.kill()
        else:
            check(re.search("[Dd]isk|room|space", k.store.log_tail()), f"no word of the full disk: {k.store.log_tail()}")
            how = f"it ended with {k.store.process.returncode} and said why"
        d.give()
        k.store.start()
        k.resumes("again", 3000)
        return f"{how}; {k.verify()} right at the end"


@case(group="cli")
def full_of_files():
    """No inode is left: writes are refused, reads and deletes go on, writing resumes."""
    with disk(64, ("-N", "256")) as d, kept(d, d, config='checkpoint_idle = "1s"') as k:
        for i in range(300):
            k.put(f"a/{i}", 5000)
        taken = 0
        while d.inodes() > 0:
            try:
                with open(f"{d.path}/taken-{taken}", "wb"):
                    taken += 1
            except OSError:
                break
        begin, status = time.monotonic(), 200
        while status != 507 and time.monotonic() - begin < 15:
            status = k.put(f"b/{time.monotonic()}", 5000)
        check(status == 507, "PUTs are taken without an inode left")
        k.verify()
        for i in range(0, 300, 3):
            k.delete(f"a/{i}")
        time.sleep(5)  # checkpoints come due meanwhile
        alive(k)
        k.verify()
        k.store.kill()
        done = subprocess.run([s3lib.binary(), "-c", k.store.config, "server", "--single-node"], capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, check=False)
        check(done.returncode == 1 and "0 inodes free" in done.stderr, f"a start without an inode: {done.returncode} {done.stderr[-500:]}")
        for i in range(taken):
            os.unlink(f"{d.path}/taken-{i}")
        k.store.start()
        k.verify()
        resumed = k.resumes("again", PART)
        k.restart()
        return f"{taken} inodes taken, resumed after {resumed:.1f} s; {k.verify()} right at the end"


@case(group="cli")
def disk_turns_read_only():
    """ext4 gives up under the store (errors=remount-ro): writes get an error or the store stops and says so; after a check and a
    mount everything acknowledged is there. A start on a read-only mount says why it cannot."""
    with disk(128, ("-e", "remount-ro")) as d, kept(d, d) as k:
        for i in range(400):
            check(k.put(f"a/{i}", 3000 if i % 4 else 200_000) == 200, "a PUT with room")
        trigger = f"/sys/fs/ext4/{os.path.basename(d.loop)}/trigger_fs_error"
        try:
            with open(trigger, "w", encoding="ascii") as f:
                f.write("test")
        except OSError as why:
            raise Skip(f"{trigger}: {why}") from None
        end, told = time.monotonic() + 30, None
        while told is None and time.monotonic() < end:
            try:
                answer = k.client().put(BUCKET, "late", b"x" * 100_000)
                told = f"PUT answered {answer.status} {answer.code}" if answer.status >= 500 else None
            except (OSError, http.client.HTTPException):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    told = f"the store ended with {k.store.process.wait(10)}"
        check(told, "no write failed on a read-only disk")
        if k.store.process.poll() is not None:
            check(k.store.process.returncode != 0, "it ended as if all were well")
            check(re.search("[Rr]ead-only|stopp", k.store.log_tail()), f"it does not say why: {k.store.log_tail()}")
        else:
            k.verify()
        k.store.kill()
        d.unmount()
        shell("e2fsck", "-fy", d.loop, ok=False)
        shell("mount", "-o", "ro", d.loop, d.path)
        done = subprocess.run([s3lib.binary(), "-c", k.store.config, "server", "--single-node"], capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, check=False)
        check(done.returncode != 0 and re.search("[Rr]ead-only", done.stdout + done.stderr),
              f"a start on a read-only disk: exit {done.returncode}: {done.stderr[-500:]}")
        shell("mount", "-o", "remount,rw", d.loop, d.path)
        k.store.start()
        late = k.client().get(BUCKET, "late").status
        if late == 200:  # its fate was unknown
            k.client().delete(BUCKET, "late")
        k.resumes("again", 5000)
        return f"{told}; {k.verify()} right at the end"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX")
    arguments = parser.parse_args()
    report = Report()
    for function, _, _, _ in CASES:
        if function.__module__ == "__main__" and re.search(arguments.only, function.__name__):
            report.one(function.__name__, function)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
