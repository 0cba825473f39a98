/* What kv_rocks.c lays down in RocksDB's files (docs/formats/kv.md); those files' own format is
 * RocksDB's, with its own versions and checksums.
 *
 *   +-------+-----------------------+        +-----------------------------+
 *   | space | key, as callers see it|  --->  | value, or 8 bytes (counter) |
 *   |   1   | 0 to KV_KEY_MAX       |        +-----------------------------+
 *   +-------+-----------------------+
 */
#ifndef KV_KV_FORMAT_H
#define KV_KV_FORMAT_H

/* The first byte of a key. A space ends where the next byte begins. */
#define KV_FORMAT_SPACE_META  'M'
#define KV_FORMAT_SPACE_LOCAL 'L'
_Static_assert(KV_FORMAT_SPACE_META == 0x4d && KV_FORMAT_SPACE_LOCAL == 0x4c, "format");

/* Stored in tables; RocksDB refuses to open them with an operator of another name. */
#define KV_FORMAT_COUNTER_NAME "hayloft.counter.1"

#endif
