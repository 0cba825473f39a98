#!/usr/bin/env python3
"""Writes segment.bin from docs/formats/log.md alone: an encoder that shares nothing with the C code.

The file is the beginning of segment 1 of cluster "cluster-of-tests" with three batches; the test
appends the same records and compares."""
import pathlib
import struct


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283
CLUSTER = b"cluster-of-tests"
SEGMENT_BYTES = 16384
NUMBER = 1

header = struct.pack("<8sIIQQ16s12x", b"HAYLLOG1", 1, 4096, NUMBER, SEGMENT_BYTES, CLUSTER)
chain = crc32c(header)
out = (header + struct.pack("<I", chain)).ljust(4096, b"\0")

# (group, kind, term, index, payload), a list a batch
BATCHES = [
    [(0, 1, 1, 1, b"first entry")],
    [(7, 1, 1, 1, b""), (7, 2, 2, 0, b"vote"), (0, 1, 2, 2, bytes(range(256)))],
    [(0xFFFFFFFF, 1, 2**64 - 1, 2**63, b"12345678")],
]
for batch, records in enumerate(BATCHES, 1):
    for left, (group, kind, term, index, payload) in reversed(list(enumerate(reversed(records)))):
        padded = payload.ljust((len(payload) + 7) // 8 * 8, b"\0")
        rest = struct.pack("<IIIHHIIQQQ", crc32c(padded), chain, len(payload), kind, 0, group, left,
                           term, index, batch)
        chain = crc32c(CLUSTER + struct.pack("<QQ", NUMBER, len(out)) + rest)
        out += struct.pack("<II", 0x4352474C, chain) + rest + padded

pathlib.Path(__file__).with_name("segment.bin").write_bytes(out)
