#!/usr/bin/env python3
"""Kills a real store under load, again and again, and checks after each restart that every acknowledged write is there, that
nothing appeared that nobody wrote, and that every body is exactly one write's.

kill -9 leaves the page cache alone: this tests ordering and recovery of the real program (threads, RocksDB, sockets). Loss of
un-synced writes is the simulator's business (test/sim).

    kill.py --kills 200 [--seed N] [--keep]
"""
import argparse
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from s3lib import Client, Store, describe, undescribe  # noqa: E402

KEYS = [f"{prefix}{i:02d}" for prefix in ("flat-", "dir/", "dir/sub/") for i in range(8)]
SIZES = [0, 100, 4096, 4096, 4096, 20000, 32768, 32769, 200_000, 5_000_000]


class Model:
    """What may be read of each key: the last acknowledged state, and states whose request had no answer. A state is
    (writer, sequence) or None for absent."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sure = {key: None for key in KEYS}
        self.open = {key: [] for key in KEYS}
        self.sequence = 0

    def begin(self, key, writer, delete):
        with self.lock:
            self.sequence += 1
            state = None if delete else (writer, self.sequence)
            self.open[key].append(state)
            return self.sequence, state

    def end(self, key, state, done):
        """done: True acknowledged, False refused, None unknown (stays open until a read after the restart)."""
        with self.lock:
            if done is None:
                return
            self.open[key].remove(state)
            if done:
                self.sure[key] = state

    def settle(self, key, state):
        possible = [self.sure[key], *self.open[key]]
        good = state in possible
        self.sure[key], self.open[key] = state, []
        return good, possible


class Writer(threading.Thread):
    """Owns some keys, so that the model knows the order of their writes."""

    def __init__(self, store, model, number, keys, seed):
        super().__init__(daemon=True)
        self.store, self.model, self.name, self.keys = store, model, f"w{number}", keys
        self.random = random.Random(seed)
        self.stopped = False
        self.acknowledged = 0

    def one(self, client):
        key = self.random.choice(self.keys)
        kind = self.random.random()
        sequence, state = self.model.begin(key, self.name, kind < 0.15)
        try:
            if kind < 0.15:
                answer = client.delete("demo", key)
            elif kind < 0.25:
                answer = self.multipart(client, key, sequence)
            else:
                answer = client.put("demo", key, describe(key, self.name, sequence, self.random.choice(SIZES)))
        except Exception:  # the store died under the request: the outcome is unknown
            return False
        done = answer.status in (200, 204) and answer.code is None
        self.model.end(key, state, done if answer.status < 500 else None)
        self.acknowledged += done
        return True

    def multipart(self, client, key, sequence):
        answer = client.request("POST", "demo", key, query=[("uploads", "")])
        if answer.status != 200:
            return answer
        upload = answer.body.decode().split("<UploadId>")[1].split("<")[0]
        answer = client.request("PUT", "demo", key, query=[("partNumber", "1"), ("uploadId", upload)],
                                body=describe(key, self.name, sequence, self.random.choice(SIZES)))
        if answer.status != 200:
            return answer
        xml = (f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{answer.headers['etag']}</ETag></Part>"
               "</CompleteMultipartUpload>").encode()
        return client.request("POST", "demo", key, query=[("uploadId", upload)], body=xml)

    def run(self):
        client = Client(self.store)
        while not self.stopped and self.one(client):
            pass
        client.close()


def check(store, model):
    """Reads every key; returns what is wrong."""
    client, wrong = Client(store), []
    listed = set(client.keys("demo"))
    for key in KEYS:
        answer = client.get("demo", key)
        if answer.status == 404:
            state = None
        elif answer.status == 200:
            found = undescribe(answer.body)
            if found is None or found[0] != key:
                wrong.append(f"{key}: foreign or damaged bytes ({len(answer.body)}): {answer.body[:60]!r}")
                continue
            state = found[1:]
        else:
            wrong.append(f"{key}: answered {answer.status} {answer.code}")
            continue
        good, possible = model.settle(key, state)
        if not good:
            wrong.append(f"{key}: is {state}, expected one of {possible}")
        if (state is not None) != (key in listed):
            wrong.append(f"{key}: reading and listing disagree")
    for key in listed - set(KEYS):
        wrong.append(f"{key}: nobody wrote it")
    client.close()
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true", help="keep the directory of a failing run")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    model, acknowledged, restart_ms = Model(), 0, []
    store = Store()
    store.start()
    for kill in range(1, args.kills + 1):
        writers = [Writer(store, model, i, KEYS[i::6], rng.random()) for i in range(6)]
        for writer in writers:
            writer.start()
        time.sleep(rng.uniform(0.001, 0.4))
        store.kill()
        for writer in writers:
            writer.stopped = True
            writer.join()
        acknowledged += sum(writer.acknowledged for writer in writers)
        for _ in range(rng.choice([0, 0, 0, 1, 2])):  # killed again while it recovers
            store.start(wait=False)
            time.sleep(rng.uniform(0.001, 0.05))
            store.kill()
        begin = time.monotonic()
        store.start()
        restart_ms.append((time.monotonic() - begin) * 1000)
        wrong = check(store, model)
        if wrong:
            print(f"not ok kill {kill}: seed {args.seed}: " + "; ".join(wrong[:5]))
            print(store.log_tail())
            if args.keep:
                print(f"kept: {store.dir}")
                store.own = False
            store.close()
            return 1
    store.stop()
    store.close()
    restart_ms.sort()
    print(f"ok {args.kills} kills: seed {args.seed}, {acknowledged} acknowledged writes, none lost; ready again after "
          f"{restart_ms[len(restart_ms) // 2]:.0f} ms (median), {restart_ms[-1]:.0f} ms (worst)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
