/* Keys and values of data/'s rows (location_format.h). Pure functions. Decoders check every size,
 * as a damaged row must become an error and never a wild read. */
#include "data/location_format.h"

#include "volume/volume_format.h"

struct data_key data_key_table(enum data_row row) {
    return (struct data_key){.bytes = {(uint8_t)row}, .size = 1};
}

struct data_key data_key_id(enum data_row row, struct body_id id) {
    struct data_key key = data_key_table(row);
    put_be64(key.bytes + 1, id.high);
    put_be64(key.bytes + 9, id.low);
    key.size = 17;
    return key;
}

struct data_key data_key_volume(enum data_row row, uint32_t volume) {
    struct data_key key = data_key_table(row);
    put_be32(key.bytes + 1, volume);
    key.size = 5;
    return key;
}

struct data_key data_key_free(uint64_t seq) {
    struct data_key key = data_key_table(DATA_ROW_FREE);
    put_be64(key.bytes + 1, seq);
    key.size = 9;
    return key;
}

struct data_key data_key_alias(struct body_id id, uint32_t volume) {
    struct data_key key = data_key_id(DATA_ROW_ALIAS, id);
    put_be32(key.bytes + 17, volume);
    key.size = 21;
    return key;
}

struct data_key data_key_damage(uint32_t volume, uint64_t off) {
    struct data_key key = data_key_volume(DATA_ROW_DAMAGE, volume);
    put_be64(key.bytes + 5, off);
    key.size = 13;
    return key;
}

struct data_key data_key_named(struct body_id first, uint64_t count) {
    struct data_key key = data_key_id(DATA_ROW_NAMED, first);
    put_be64(key.bytes + 17, count);
    key.size = 25;
    return key;
}

bool data_key_parse_id(struct slice key, struct body_id *ret) {
    if (key.size != 17) {
        return false;
    }
    *ret = (struct body_id){get_be64(key.data + 1), get_be64(key.data + 9)};
    return true;
}

bool data_key_parse_volume(struct slice key, uint32_t *ret) {
    if (key.size != 5) {
        return false;
    }
    *ret = get_be32(key.data + 1);
    return true;
}

bool data_key_parse_free(struct slice key, uint64_t *ret) {
    if (key.size != 9) {
        return false;
    }
    *ret = get_be64(key.data + 1);
    return true;
}

bool data_key_parse_alias(struct slice key, struct body_id *ret_id, uint32_t *ret_volume) {
    if (key.size != 21) {
        return false;
    }
    *ret_id = (struct body_id){get_be64(key.data + 1), get_be64(key.data + 9)};
    *ret_volume = get_be32(key.data + 17);
    return true;
}

bool data_key_parse_damage(struct slice key, uint32_t *ret_volume, uint64_t *ret_off) {
    if (key.size != 13) {
        return false;
    }
    *ret_volume = get_be32(key.data + 1);
    *ret_off = get_be64(key.data + 5);
    return true;
}

bool data_key_parse_named(struct slice key, struct body_id *ret_first, uint64_t *ret_count) {
    if (key.size != 25) {
        return false;
    }
    *ret_first = (struct body_id){get_be64(key.data + 1), get_be64(key.data + 9)};
    *ret_count = get_be64(key.data + 17);
    return true;
}

size_t data_place_encode(const struct data_place *place, uint8_t ret[DATA_PLACE_BYTES_MAX]) {
    const struct volume_location *l = &place->location;
    size_t n = put_varint(ret, l->volume);
    n += put_varint(ret + n, l->off / VOLUME_RECORD_ALIGN);
    n += put_varint(ret + n,
                    (uint64_t)(l->record_bytes / VOLUME_RECORD_ALIGN) << 2 | (place->kind - 1));
    n += put_varint(ret + n, l->body_bytes);
    return n;
}

bool data_place_decode(struct reader *r, struct data_place *ret) {
    uint64_t volume = reader_varint(r), off = reader_varint(r);
    uint64_t size = reader_varint(r), body = reader_varint(r);
    if (r->failed || volume == 0 || volume > UINT32_MAX || off > UINT64_MAX / VOLUME_RECORD_ALIGN ||
        (size >> 2) > VOLUME_RECORD_MAX / VOLUME_RECORD_ALIGN || body > VOLUME_BODY_MAX) {
        return false;
    }
    *ret = (struct data_place){
        .location = {.volume = (uint32_t)volume,
                     .off = off * VOLUME_RECORD_ALIGN,
                     .record_bytes = (uint32_t)(size >> 2) * VOLUME_RECORD_ALIGN,
                     .body_bytes = (uint32_t)body},
        .kind = (uint32_t)(size & 3) + 1};
    return true;
}
