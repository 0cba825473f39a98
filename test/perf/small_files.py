#!/usr/bin/env python3
"""The small-file job of stories.md 3: 5,000 objects of exactly 4,096 bytes by boto3 put_object with eight workers and five
retries, then a list count and the SHA-256 of a sample. Prints objects/s, resident memory before and after, files and bytes on
disk right after and a minute later. Works against any endpoint with --endpoint and the usual AWS variables; then only the
client's side is printed.

    small_files.py [--count 5000] [--wait 60] [--json]
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import s3lib  # noqa: E402
import venv_packages  # noqa: E402

venv_packages.use("boto3")
import boto3  # noqa: E402
from botocore.config import Config  # noqa: E402


def body(i):
    return (hashlib.sha256(str(i).encode()).digest() * 128)[:4096]


def tree(path):
    files, size = 0, 0
    for folder, _, names in os.walk(path):
        for name in names:
            files += 1
            size += os.stat(os.path.join(folder, name)).st_blocks * 512
    return files, size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--endpoint")
    parser.add_argument("--bucket", default="small-files")
    parser.add_argument("--wait", type=int, default=60, help="seconds until the disk is looked at again")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    store = None if args.endpoint else s3lib.Store(bucket=args.bucket).start()
    credentials = {} if args.endpoint else {"aws_access_key_id": s3lib.KEY, "aws_secret_access_key": s3lib.SECRET}
    local = threading.local()

    def client():
        if not hasattr(local, "client"):
            local.client = boto3.session.Session().client(
                "s3", endpoint_url=args.endpoint or store.url, region_name="us-east-1",
                config=Config(retries={"max_attempts": 5}, s3={"addressing_style": "path"}), **credentials)
        return local.client

    result = {"count": args.count}
    if store:
        time.sleep(1)
        result["rss_before_mib"] = round(store.rss_kib() / 1024, 1)
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(args.workers) as pool:
        list(pool.map(lambda i: client().put_object(Bucket=args.bucket, Key=f"obj-{i:05d}.bin", Body=body(i)),
                      range(args.count)))
    seconds = time.monotonic() - begin
    result.update(seconds=round(seconds, 2), objects_per_second=round(args.count / seconds, 1))
    pages = client().get_paginator("list_objects_v2").paginate(Bucket=args.bucket, Prefix="obj-")
    listed = sum(len(page.get("Contents", [])) for page in pages)
    result["listed"] = listed
    sample = range(0, args.count, max(1, args.count // 100))
    wrong = [i for i in sample if hashlib.sha256(client().get_object(Bucket=args.bucket, Key=f"obj-{i:05d}.bin")
                                                 ["Body"].read()).digest() != hashlib.sha256(body(i)).digest()]
    result["sample_wrong"] = len(wrong)
    if store:
        result["rss_after_mib"] = round(store.rss_kib() / 1024, 1)
        result["files"], size = tree(store.dir)
        result["disk_mib"] = round(size / 2**20, 1)
        if args.wait:
            time.sleep(args.wait)
            result["files_later"], size = tree(store.dir)
            result["disk_later_mib"] = round(size / 2**20, 1)
            result["rss_later_mib"] = round(store.rss_kib() / 1024, 1)
        store.stop()
        store.close()
    if args.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:>22}  {value}")
    return 0 if listed == args.count and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
