#!/usr/bin/env python3
"""Power cuts on a real file system: ext4 (or xfs) on a loop device, the real store under load, then the file system is shut down
by ioctl without flushing its journal (what the page cache held is lost), the store is killed, the image is mounted again, and
every acknowledged write must be there. Needs root and loop devices.

    power.py --cuts 10 [--fs ext4|xfs] [--seed N] [--size-mib 512]
"""
import argparse
import fcntl
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kill import KEYS, Model, Writer, check  # noqa: E402
from s3lib import Store  # noqa: E402

SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN: _IOR('X', 125, __u32)
NO_LOG_FLUSH = 2


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


class Disk:
    def __init__(self, kind, mib):
        self.dir = tempfile.mkdtemp(prefix="hayloft-power-")
        self.image, self.mount_point = f"{self.dir}/image", f"{self.dir}/mnt"
        os.mkdir(self.mount_point)
        with open(self.image, "wb") as f:
            f.truncate(mib << 20)
        made = run(f"mkfs.{kind}", *(["-q", "-F"] if kind == "ext4" else ["-q"]), self.image)
        if made.returncode:
            raise RuntimeError(made.stderr)
        self.mount()

    def mount(self):
        done = run("mount", "-o", "loop", self.image, self.mount_point)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())

    def cut(self):
        fd = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def unmount(self):
        for _ in range(100):
            if run("umount", self.mount_point).returncode == 0:
                return
            time.sleep(0.05)
        raise RuntimeError("umount: busy")

    def close(self):
        run("umount", "-l", self.mount_point)
        shutil.rmtree(self.dir, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=10)
    parser.add_argument("--fs", default="ext4")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--size-mib", type=int, default=512)
    args = parser.parse_args()
    name = f"{args.cuts} power cuts on {args.fs}"
    if os.geteuid() != 0 or shutil.which(f"mkfs.{args.fs}") is None:
        print(f"skip {name}: needs root and mkfs.{args.fs}")
        return 0
    try:
        disk = Disk(args.fs, args.size_mib)
    except RuntimeError as error:
        print(f"skip {name}: no loop file system here: {error}")
        return 0
    rng, model, acknowledged = random.Random(args.seed), Model(), 0
    store = Store(meta_dir=f"{disk.mount_point}/meta", data_dir=f"{disk.mount_point}/data")
    try:
        store.start()
        for cut in range(1, args.cuts + 1):
            writers = [Writer(store, model, i, KEYS[i::6], rng.random()) for i in range(6)]
            for writer in writers:
                writer.start()
            time.sleep(rng.uniform(0.05, 2.0))
            disk.cut()
            # A write that is answered after the cut would be a lie: the threads see what the store says now.
            time.sleep(rng.uniform(0, 0.05))
            store.kill()
            for writer in writers:
                writer.stopped = True
                writer.join()
            acknowledged += sum(writer.acknowledged for writer in writers)
            disk.unmount()
            disk.mount()
            store.start()
            wrong = check(store, model)
            if wrong:
                print(f"not ok {name}: cut {cut}, seed {args.seed}: " + "; ".join(wrong[:5]))
                print(store.log_tail())
                return 1
        store.stop()
    except RuntimeError as error:
        print(f"not ok {name}: seed {args.seed}: {error}")
        return 1
    finally:
        store.close()
        disk.close()
    print(f"ok {name}: seed {args.seed}, {acknowledged} acknowledged writes, none lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
