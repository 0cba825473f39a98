/* What a log segment looks like on disk (docs/formats/log.md). All integers little-endian.
 *
 *   a segment file, NNNNNNNNNNNNNNNN.log (its number in 16 hex digits)
 *   +--------------------+-----------+-----------+---//---+-----+----------------------------+
 *   | header, 4096 bytes | record    | record    |        | END | zeros, or what an earlier  |
 *   | (64 used)          |           |           |        |     | use of the file left there |
 *   +--------------------+-----------+-----------+---//---+-----+----------------------------+
 *
 *   a record, at a multiple of 8
 *   +-------+------------+-------------+-------+--------+------+-------+-------+------+
 *   | magic | header_crc | payload_crc | chain | length | kind | flags | group | left |
 *   |   4   |     4      |      4      |   4   |   4    |  2   |   2   |   4   |  4   |
 *   +-------+------------+-------------+-------+--------+------+-------+-------+------+
 *   | term 8 | index 8 | batch 8 | payload: length bytes | zeros up to a multiple of 8 |
 *   +--------+---------+---------+-----------------------+-----------------------------+
 *
 * header_crc is the CRC32C of: cluster id (16 bytes), segment number (8), offset of the record in
 * the segment (8), then the record's header from payload_crc on. It binds a record to its place, so
 * that neither what an earlier use of a recycled file left behind nor a misplaced write looks
 * valid, and it can be checked without the record before. payload_crc covers payload and padding.
 * chain is the header_crc of the record before in the segment (of the segment header for the
 * first). batch counts the calls of log_append; left counts the records of the same batch that
 * follow, in this segment or in the next. */
#ifndef LOG_LOG_FORMAT_H
#define LOG_LOG_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define LOG_FORMAT_VERSION      1u
#define LOG_SEGMENT_MAGIC       "HAYLLOG1"
#define LOG_SEGMENT_HEADER_SIZE 4096u       /* the first record starts here */
#define LOG_RECORD_MAGIC        0x4352474cu /* "LGRC" */
#define LOG_RECORD_ALIGN        8u
#define LOG_CLUSTER_ID_SIZE     16

/* Kinds of the log itself; those below 0x8000 are enum log_kind and go to the caller. */
#define LOG_KIND_END    0x8000u /* the segment is full, the log goes on in the next number */
#define LOG_KIND_RESUME 0x8001u /* recovery found a torn tail before this place */

/* Far beyond what is ever written, so that adding one is safe. */
#define LOG_BATCH_MAX (UINT64_MAX / 2)

/* On every record of the batch that a recovery writes: it may follow an unfinished batch. */
#define LOG_FLAG_RESUME 0x0001u

struct log_segment_header {
    uint8_t magic[8];
    uint8_t version[4];
    uint8_t header_size[4];
    uint8_t number[8];
    uint8_t segment_bytes[8];
    uint8_t cluster_id[LOG_CLUSTER_ID_SIZE];
    uint8_t reserved[12]; /* zero */
    uint8_t crc[4];       /* CRC32C of the 60 bytes before */
};
_Static_assert(sizeof(struct log_segment_header) == 64, "format");
_Static_assert(offsetof(struct log_segment_header, number) == 16, "format");
_Static_assert(offsetof(struct log_segment_header, cluster_id) == 32, "format");
_Static_assert(offsetof(struct log_segment_header, crc) == 60, "format");

struct log_record_header {
    uint8_t magic[4];
    uint8_t header_crc[4];
    uint8_t payload_crc[4];
    uint8_t chain[4];
    uint8_t length[4];
    uint8_t kind[2];
    uint8_t flags[2];
    uint8_t group[4];
    uint8_t left[4];
    uint8_t term[8];
    uint8_t index[8];
    uint8_t batch[8];
};
_Static_assert(sizeof(struct log_record_header) == 56, "format");
_Static_assert(offsetof(struct log_record_header, payload_crc) == 8, "format");
_Static_assert(offsetof(struct log_record_header, term) == 32, "format");
_Static_assert(offsetof(struct log_record_header, batch) == 48, "format");

#define LOG_RECORD_HEADER_SIZE ((uint32_t)sizeof(struct log_record_header))

#endif
