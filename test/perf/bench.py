#!/usr/bin/env python3
"""First figures: durable small PUT, small GET, LIST, large PUT and GET, each beside the limit of this machine measured in the
same run, as a ratio, with CPU per operation of the server.

    bench.py [--seconds 4] [--json] [--quick]

What bounds each row is in its last column. Absolute figures of two machines or days are not to be compared.
"""
import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import s3lib  # noqa: E402

ROOT = s3lib.ROOT


def load(mode, seconds, **options):
    command = [f"{ROOT}/build-test/test/perf/load", "--mode", mode, "--seconds", str(seconds)]
    for name, value in options.items():
        command.append("--" + name.replace("_", "-"))
        if value is not True:
            command.append(str(value))
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    result = json.loads(done.stdout)
    if done.returncode:
        raise SystemExit(f"{mode}: {result['errors']} errors: {done.stderr.strip()}")
    return result


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, seconds):
        self.seconds, self.rows = seconds, []
        os.environ.setdefault("HAYLOFT", f"{ROOT}/build/hayloft")
        self.store = s3lib.Store(bucket="bench").start()
        self.target = dict(port=self.store.port, bucket="bench", key_id=s3lib.KEY, secret=s3lib.SECRET)

    def row(self, name, value, unit, limit, bound, cpu_us=None, p50_us=None, p99_us=None):
        self.rows.append(dict(name=name, value=round(value, 1), unit=unit, limit=round(limit, 1),
                              ratio=round(value / limit, 2), cpu_us=cpu_us and round(cpu_us, 1), p50_us=p50_us,
                              p99_us=p99_us, bound=bound))

    def measured(self, mode, **options):
        before = cpu_seconds(self.store.process.pid)
        result = load(mode, self.seconds, **self.target, **options)
        result["cpu_us"] = (cpu_seconds(self.store.process.pid) - before) * 1e6 / max(1, result["operations"])
        return result

    def small(self):
        # The limits run before and after, so that a drift of the machine shows in the ratio of neither.
        sync = load("limit-sync", 2, size=4096, dir=self.store.dir)
        one = self.measured("put", connections=1, size=4096, keys=20000)
        many = self.measured("put", connections=32, size=4096, keys=40000)
        sync_after = load("limit-sync", 2, size=4096, dir=self.store.dir)
        per_second = (sync["per_second"] + sync_after["per_second"]) / 2
        for name, r in (("PUT 4 KiB, 1 connection", one), ("PUT 4 KiB, 32 connections", many)):
            self.row(name, r["per_second"], "obj/s", per_second, "one 4 KiB overwrite and fdatasync an object", r["cpu_us"],
                     r["p50_us"], r["p99_us"])
        self.row("PUT 4 KiB, 32 connections", many["per_second"], "obj/s", self.file_an_object(),
                 "a file an object: write, fsync, rename, fsync of the directory")
        load("fill", 600, **self.target, connections=32, size=4096, keys=20000)  # each key is there, however slow the disk
        get = self.measured("get", connections=32, size=4096, keys=20000)
        head = self.measured("head", connections=32, keys=20000)
        echo = self.echo()
        self.row("GET 4 KiB, 32 connections", get["per_second"], "req/s", echo, "loopback HTTP echo of 4 KiB", get["cpu_us"],
                 get["p50_us"], get["p99_us"])
        self.row("HEAD, 32 connections", head["per_second"], "req/s", echo, "loopback HTTP echo of 4 KiB", head["cpu_us"],
                 head["p50_us"], head["p99_us"])

    def file_an_object(self, seconds=2.0):
        """Objects/s of the pattern that stores with one file an object use, on the same disk: one durable object at a time."""
        folder, body, count = os.path.join(self.store.dir, "files"), b"x" * 4096, 0
        os.makedirs(folder)
        directory = os.open(folder, os.O_RDONLY)
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            fd = os.open(f"{folder}/tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(fd, body)
            os.fsync(fd)
            os.close(fd)
            os.rename(f"{folder}/tmp", f"{folder}/{count}")
            os.fsync(directory)
            count += 1
        rate = count / (time.monotonic() - begin)
        os.close(directory)
        shutil.rmtree(folder)
        return rate

    @staticmethod
    def echo():
        """Requests/s of the same HTTP server answering 4 KiB from memory: no signature, no names, no store behind it."""
        port = s3lib.free_port()
        process = subprocess.Popen([f"{ROOT}/build-test/test/perf/http_echo", f"127.0.0.1:{port}", "2"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            return load("get", 2, port=port, connections=32, keys=1000, bucket="4096", key_id="x", secret="y")["per_second"]
        finally:
            process.terminate()
            process.wait()

    def list(self, count):
        client = s3lib.Client(self.store)
        have = len(client.keys("bench"))
        if have < count:
            load("fill", 600, **self.target, connections=32, size=64, keys=count)
        begin, cpu = time.monotonic(), cpu_seconds(self.store.process.pid)
        keys = len(client.keys("bench"))
        seconds = time.monotonic() - begin
        used = cpu_seconds(self.store.process.pid) - cpu
        self.row(f"LIST of {keys} keys, 1,000 a page", keys / seconds, "keys/s", keys / max(used, 0.01),
                 "what the server's CPU time alone would allow; the rest is this Python client", used * 1e6 / max(1, keys))
        client.close()

    def large(self, mib):
        body = os.urandom(1 << 20) * mib
        client = s3lib.Client(self.store)
        path = os.path.join(self.store.dir, "limit")
        begin = time.monotonic()
        with open(path, "wb") as f:
            f.write(body)
            f.flush()
            os.fdatasync(f.fileno())
        write = mib / (time.monotonic() - begin)
        os.unlink(path)
        times, cpus = [], []
        for i in range(3):
            cpu, begin = cpu_seconds(self.store.process.pid), time.monotonic()
            answer = client.put("bench", f"large-{i}", body, payload_hash="UNSIGNED-PAYLOAD")
            times.append(time.monotonic() - begin)
            cpus.append(cpu_seconds(self.store.process.pid) - cpu)
            if answer.status != 200:
                raise SystemExit(f"PUT of {mib} MiB answered {answer.status} {answer.body[:300]}")
        self.row(f"PUT {mib} MiB, unsigned payload", mib / min(times), "MiB/s", write, "write and fdatasync of a new file; MD5 of one stream",
                 min(cpus) * 1e6)
        begin = time.monotonic()
        answer = client.get("bench", "large-0")
        read = mib / (time.monotonic() - begin)
        if answer.body != body:
            raise SystemExit("GET gave other bytes")
        self.row(f"GET {mib} MiB", read, "MiB/s", self.copy_limit(body), "loopback copy through this Python client")
        client.close()

    @staticmethod
    def copy_limit(body):
        """MiB/s of the same client reading the same bytes from a socket pair."""
        import socket
        import threading
        a, b = socket.socketpair()
        threading.Thread(target=lambda: (a.sendall(body), a.close()), daemon=True).start()
        begin, size = time.monotonic(), 0
        while size < len(body):
            size += len(b.recv(1 << 20))
        b.close()
        return size / 2**20 / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--keys", type=int, default=100_000, help="keys of the listing")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    subprocess.run([f"{ROOT}/tools/build.sh", "build-test", "test/perf/load", "test/perf/http_echo"],
                   check=True, stdout=subprocess.DEVNULL)
    bench = Bench(args.seconds)
    try:
        bench.small()
        bench.list(args.keys)
        bench.large(64)
        rss = bench.store.rss_kib() / 1024
    finally:
        bench.store.stop()
        bench.store.close()
    if args.json:
        print(json.dumps(dict(rows=bench.rows, rss_mib=round(rss, 1))))
        return 0
    print(f"{'':34} {'measured':>10} {'unit':6} {'limit':>10} {'ratio':>6} {'CPU us/op':>10} {'p50 us':>8} {'p99 us':>8}  bound by")
    for r in bench.rows:
        print(f"{r['name']:34} {r['value']:10.1f} {r['unit']:6} {r['limit']:10.1f} {r['ratio']:6.2f} "
              f"{r['cpu_us'] or '':>10} {r['p50_us'] or '':>8} {r['p99_us'] or '':>8}  {r['bound']}")
    print(f"resident memory of the server at the end: {rss:.1f} MiB; "
          f"client CPU {resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
