/* metadata_dir/data-dirs: the data directories that the store has used, so that one whose disk is
 * not mounted can be told from one that is new. Written whole by os_file_replace.
 *
 *    0        4          8        12
 *   +--------+----------+--------+---------+---------+-- ... --+-----+
 *   | "HLD1" | version  | count  | entry 0 | entry 1 |         | crc |
 *   +--------+----------+--------+---------+---------+-- ... --+-----+
 *
 *   entry:  | uuid of the directory 16 | path size 4 | path |
 *
 * Numbers are little-endian; crc is CRC-32C of everything before it. */
#ifndef OBJECT_DIRS_FORMAT_H
#define OBJECT_DIRS_FORMAT_H

#include <stdint.h>

#define DIRS_FILE      "data-dirs"
#define DIRS_MAGIC     0x31444c48u /* "HLD1" */
#define DIRS_VERSION   1u
#define DIRS_BYTES_MAX (1u << 20)

struct dirs_header_disk {
    uint8_t magic[4];
    uint8_t version[4];
    uint8_t count[4];
};
_Static_assert(sizeof(struct dirs_header_disk) == 12, "data-dirs header");

struct dirs_entry_disk {
    uint8_t uuid[16];
    uint8_t path_size[4];
};
_Static_assert(sizeof(struct dirs_entry_disk) == 20, "data-dirs entry");

#endif
