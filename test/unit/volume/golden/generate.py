#!/usr/bin/env python3
"""Writes 000001.vol as docs/formats/volume.md describes it, without any of Hayloft's code."""
import os
import struct


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


UUID = bytes(range(16))
CLUSTER = b"0123456789abcdef"
NUMBER = 1

head = struct.pack("<4sIII16s16sQI", b"HLV1", 1, NUMBER, 0, CLUSTER, UUID, 1700000000000, 0)
head += struct.pack("<I", crc32c(head))
assert len(head) == 64
out = bytearray(head.ljust(512, b"\0") + head.ljust(512, b"\0"))


def record(kind, high, low, body, key, value):
    identity = struct.pack("<QQ", high, low)
    spans = [body[i:i + 65536] for i in range(0, len(body), 65536)]
    table = b"".join(
        struct.pack("<I", crc32c(identity + struct.pack("<I", i) + span))
        for i, span in enumerate(spans))
    origin = crc32c(identity + struct.pack("<II", 0xFFFFFFFF, len(key)) + key + value)
    header = struct.pack("<4sBBHIIQQQII", b"HLR1", kind, 0, len(key), NUMBER, len(body), len(out),
                         high, low, len(value), origin)
    header += struct.pack("<I", crc32c(UUID + header))
    assert len(header) == 52
    data = header + body + table + key + value
    out.extend(data.ljust((len(data) + 7) // 8 * 8, b"\0"))


record(1, 0x1122334455667788, 1, b"hello", b"key-one", b"value-one")
record(2, 0x1122334455667788, 2, bytes(i % 251 for i in range(70000)), b"key-two", b"\x07")
record(4, 0, 42, b"", b"b-row", b"settings")
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "000001.vol"), "wb") as f:
    f.write(out)
