"""The promised limits on memory and disk. Each case prints the figures it saw; with --long at the size of the promise."""
import base64
import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time

import s3lib
import suite
from cli import hay, hay_json
from s3lib import Client, Store
from suite import Skip, case, check, run

MIB = 1 << 20


def mib(number):
    return f"{number / MIB:.1f} MiB"


def disk(path):
    """(files, bytes allocated) below a path."""
    files = size = 0
    for folder, folders, names in os.walk(path):
        for name in folders + names:
            files += name in names
            with contextlib.suppress(FileNotFoundError):
                size += os.stat(os.path.join(folder, name), follow_symlinks=False).st_blocks * 512
    return files, size


@case(group="limits")
def idle_memory(_long):
    """At most 20 MiB resident, TLS on and some requests served."""
    with contextlib.closing(Store(tls=True)) as store:
        store.start()
        client = Client(store)
        client.put("demo", "k", b"v")
        client.get("demo", "k")
        client.close()
        time.sleep(12)  # past the checkpoint of an idle store
        used = store.rss_kib() * 1024
        check(used <= 20 * MIB, f"idle with {mib(used)} of 20 MiB")
        return mib(used)


@case(group="limits")
def small_file_job(long):
    """5,000 objects of 4 KiB by boto3: 29 MiB of memory after it, 30 MiB and 40 files on disk a minute later."""
    suite.python_packages("boto3")
    out = run([sys.executable, os.path.join(suite.ROOT, "test/perf/small_files.py"), "--json", "--wait",
               "60" if long else "20"], timeout=400)
    r = json.loads(out.strip().splitlines()[-1])
    text = (f"{r['objects_per_second']} objects/s, memory {r['rss_before_mib']} then {r['rss_after_mib']} MiB, "
            f"{r['disk_later_mib']} MiB in {r['files_later']} files")
    check(r["listed"] == r["count"] and not r["sample_wrong"], f"{r['listed']} of {r['count']} listed")
    check(r["rss_before_mib"] <= 20 and r["rss_after_mib"] <= 29, text)
    check(r["disk_later_mib"] <= 30 and r["files_later"] <= 40, text)
    return text


def load(store, mode, seconds, **options):
    """The load generator of test/perf; returns its JSON."""
    path = os.path.join(suite.ROOT, "build-test/test/perf/load")
    if not os.path.exists(path):
        run([os.path.join(suite.ROOT, "tools/build.sh"), "build-test", "test/perf/load"], timeout=900)
    command = [path, "--mode", mode, "--seconds", str(seconds), "--port", str(store.port), "--bucket", store.bucket,
               "--key-id", s3lib.KEY, "--secret", s3lib.SECRET]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    return json.loads(run(command, timeout=seconds + 120))


def settled(store):
    """Waits until the log is checkpointed and nothing is compacted; returns the statistics."""
    end = time.monotonic() + 120
    while True:
        stats = hay_json(store, "stats")
        workers = {w["name"]: w["state"] for w in hay_json(store, "worker", "list")}
        if stats["log"]["heldBytes"] < 4096 and workers["compaction"] == workers["reclaim"] == "idle":
            return stats
        check(time.monotonic() < end, f"not settled: {workers}, {stats['log']}")
        time.sleep(1)


@case(group="limits")
def space_of_small_objects(long):
    """4 KiB objects cost at most 1.06 times their bytes, names included, the log apart; space returns after deletes."""
    count = 100_000 if long else 20_000
    with contextlib.closing(Store()) as store:
        store.start()
        done = load(store, "fill", 600, connections=32, size=4096, keys=count)
        check(done["operations"] == count and done["errors"] == 0, f"{done}")
        stats = settled(store)
        check(stats["objects"] == count, f"{stats['objects']} objects of {count}")
        _, data = disk(f"{store.dir}/data")
        _, kv = disk(f"{store.dir}/meta/kv")
        _, log = disk(f"{store.dir}/meta/log")
        ratio = (data + kv) / (count * 4096)
        text = f"{count} objects: {ratio:.4f} times (volumes {mib(data)}, names {mib(kv)}; log apart {mib(log)})"
        check(ratio <= 1.06, text)
        check(log <= 8 * MIB + 64 * 1024, f"an idle node keeps {mib(log)} of log")
        client = Client(store)
        for begin in range(0, count, 1000):
            body = "".join(f"<Object><Key>{load_key(i)}</Key></Object>" for i in range(begin, min(begin + 1000, count)))
            body = f"<Delete><Quiet>true</Quiet>{body}</Delete>".encode()
            md5 = s3lib.hashlib.md5(body).digest()
            answer = client.request("POST", store.bucket, query=[("delete", "")], body=body,
                                    headers={"content-md5": base64.b64encode(md5).decode()})
            check(answer.status == 200 and b"<Error>" not in answer.body, f"DeleteObjects: {answer.status} {answer.body[:300]}")
        check(hay_json(store, "stats")["objects"] == 0, "objects are left")
        end = time.monotonic() + 90
        while True:
            _, data = disk(f"{store.dir}/data")
            _, kv = disk(f"{store.dir}/meta/kv")
            if data + kv <= count * 4096 // 20:
                break
            check(time.monotonic() < end, f"{text}; 90 s after deletes {mib(data)} in volumes and {mib(kv)} of names are left")
            time.sleep(1)
        return f"{text}; after deletes {mib(data)} and {mib(kv)}"


def load_key(i):
    """As test/perf/load.c names them."""
    return f"load-{i:07d}"


class Cgroup:
    """A memory limit for one process, by version 1 or 2, whichever the machine has."""

    def __init__(self, limit):
        name = f"hayloft-test-{os.getpid()}"
        for base, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"),
                           ("/sys/fs/cgroup/unified", "memory.max")):
            self.path = f"{base}/{name}"
            try:
                os.mkdir(self.path)
            except OSError:
                continue
            try:
                with open(f"{self.path}/{file}", "w", encoding="ascii") as f:
                    f.write(str(limit))
                return
            except OSError:
                os.rmdir(self.path)
        raise Skip("this machine lets us set no memory limit (no memory cgroup that can be written)")

    def read(self, *names):
        for name in names:
            with contextlib.suppress(OSError):
                with open(f"{self.path}/{name}", encoding="ascii") as f:
                    return f.read()
        return ""

    def killed(self):
        text = self.read("memory.events", "memory.oom_control")
        return any(line.split()[0] == "oom_kill" and int(line.split()[1]) for line in text.splitlines())

    def close(self):
        for _ in range(50):
            with contextlib.suppress(OSError):
                os.rmdir(self.path)
                return
            time.sleep(0.1)


@case(group="limits")
def uploads_in_a_small_memory(long):
    """1,000 concurrent uploads of 8 MiB in a cgroup of 128 MiB: each finishes or is pushed back, nothing is killed."""
    count, size = (1000 if long else 300), 8 * MIB
    cgroup = Cgroup(128 * MIB)
    store = Store()
    try:
        store.start()
        with open(f"{cgroup.path}/cgroup.procs", "w", encoding="ascii") as f:
            f.write(str(store.process.pid))
        body, results, lock = os.urandom(MIB) * 8, {}, threading.Lock()
        barrier = threading.Barrier(count)

        def one(i):
            client = Client(store, timeout=400)
            try:
                client.connect().connect()
                barrier.wait(60)
                for attempt in range(8):
                    answer = client.put("demo", f"u{i}", body, payload_hash="UNSIGNED-PAYLOAD")
                    if answer.status != 503:
                        break
                    time.sleep(0.5 + attempt)
                what = answer.status
            except (OSError, http.client.HTTPException, threading.BrokenBarrierError) as why:
                what = type(why).__name__
            client.close()
            with lock:
                results[what] = results.get(what, 0) + 1

        threading.stack_size(256 * 1024)
        begin = time.monotonic()
        threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(500)
        threading.stack_size(0)
        seconds = time.monotonic() - begin
        with open(f"/proc/{store.process.pid}/status", encoding="ascii") as f:
            peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
        text = f"{results} in {seconds:.0f} s, peak of the process {peak / 1024:.0f} MiB"
        check(store.process.poll() is None and not cgroup.killed(), f"killed: {text}")
        check(results.get(200, 0) + results.get(503, 0) == count and results.get(200, 0) > 0, text)
        check(hay_json(store, "bucket", "info", "demo")["objects"] == results.get(200, 0), f"other objects than answers: {text}")
        client = Client(store)
        keys = client.keys("demo")
        for key in keys[::max(1, len(keys) // 10)]:
            check(client.get("demo", key).body == body, f"{key} differs")
        hay(store, "health")
        return text
    finally:
        store.close()
        cgroup.close()
