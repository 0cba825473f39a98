/* The admin API's calls on the node: status, health, statistics, background work, scrub. Runs on
 * the blocking executor. A single node answers in the shapes of a cluster of one, so that programs
 * written for Garage's API find their members. */
#include <stdio.h>
#include <unistd.h>

#include "admin/api_int.h"
#include "base/hash.h"
#include "base/text.h"

#define NODE_KEY_MAX 4096 /* bytes of the file node.key */

int admin_node_id(struct os_fs *fs, const char *metadata_dir, char ret[ADMIN_NODE_ID_SIZE]) {
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s/node.key", metadata_dir);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        return -HL_ERR_LIMIT;
    }
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size;
    int err = os_file_load(fs, path, NODE_KEY_MAX, &data, &size);
    if (err < 0) {
        return err;
    }
    /* The key itself stays secret: the id is a hash of it under a name. */
    uint8_t digest[HASH_SIZE_MAX];
    hmac_sha256(SLICE_LITERAL("hayloft node id"), slice_of(data, size), digest);
    wipe(data, size);
    hex_encode(digest, 32, ret);
    return 0;
}

/* Calls on nodes answer {"success": {id: ...}, "error": {}}. */
static json_t *api_node_result(struct api_call *call, json_t *result) {
    return json_pack("{s:{s:o}, s:{}}", "success", call->admin->options.node_id, result, "error");
}

static int api_cluster_status(struct api_call *call, json_t **ret_json) {
    const struct admin_options *options = &call->admin->options;
    struct object_stats stats;
    object_stats(api_store(call), &stats);
    char host[256] = "";
    (void)gethostname(host, sizeof(host) - 1);
    char cluster[33];
    hex_encode(object_cluster_id(api_store(call)), 16, cluster);
    json_int_t total = (json_int_t)stats.data.space.bytes_total;
    json_int_t available = (json_int_t)stats.data.space.bytes_free;
    bool up = !meta_failed(object_meta(api_store(call)));
    json_t *partition = json_pack("{s:I, s:I}", "available", available, "total", total);
    json_t *node = json_pack("{s:s, s:b, s:n, s:s, s:s, s:s, s:{s:s, s:I, s:[]}, s:b, s:o, s:s}",
                             "id", options->node_id, "isUp", up, "lastSeenSecsAgo", "hostname",
                             host, "addr", options->s3_address, "hayloftVersion", HAYLOFT_VERSION,
                             "role", "zone", "single", "capacity", total, "tags", "draining", 0,
                             "dataPartition", partition, "dataDir", options->data_dir_text);
    *ret_json = json_pack("{s:i, s:s, s:s, s:[o]}", "layoutVersion", 1, "clusterId", cluster,
                          "region", options->region, "nodes", node);
    return 0;
}

static int api_cluster_health(struct api_call *call, json_t **ret_json) {
    *ret_json = api_health_json(call->admin);
    return 0;
}

static json_t *api_scrub_json(const struct data_stats *data) {
    const char *state = data->scrub_paused ? "paused" : data->scrubbing ? "running" : "idle";
    return json_pack(
        "{s:s, s:I, s:I, s:o, s:o, s:I}", "state", state, "bytesDone",
        (json_int_t)data->scrub_bytes_done, "bytesTotal", (json_int_t)data->scrub_bytes_total,
        "lastCompleted", api_json_time(data->scrub_last_ms), "nextRun",
        api_json_time(data->scrub_next_ms), "damagedRecords", (json_int_t)data->damaged_records);
}

static json_t *api_statistics(struct api_call *call) {
    struct object_stats s;
    object_stats(api_store(call), &s);
    struct bucket_record *buckets;
    struct access_key_record *keys;
    uint32_t bucket_count = 0, key_count = 0;
    (void)directory_buckets(api_store(call), api_pool(call), &buckets, &bucket_count);
    (void)directory_access_keys(api_store(call), api_pool(call), &keys, &key_count);
    int64_t now = os_wall_ms(object_env(api_store(call))->clock);
    json_t *disk = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b}", "live",
        (json_int_t)s.data.live_bytes, "garbage", (json_int_t)s.data.garbage_bytes, "freeQueue",
        (json_int_t)s.data.free_queue_bytes, "staged", (json_int_t)s.data.staged_bytes,
        "multipartLeftovers", (json_int_t)s.upload_bytes, "volumes",
        (json_int_t)s.data.space.bytes_used, "log", (json_int_t)s.meta.log.disk_bytes, "kv",
        (json_int_t)s.kv.disk_bytes, "free", (json_int_t)s.data.space.bytes_free, "total",
        (json_int_t)s.data.space.bytes_total, "degraded", s.data.space.degraded, "compacting",
        s.data.compacting);
    json_t *log = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "segments",
        (json_int_t)s.meta.log.segment_count, "heldBytes", (json_int_t)s.meta.log.held_bytes,
        "syncs", (json_int_t)s.meta.log.syncs, "records", (json_int_t)s.meta.log.records, "turns",
        (json_int_t)s.meta.turns, "proposals", (json_int_t)s.meta.proposals, "checkpoints",
        (json_int_t)s.meta.checkpoints, "checkpointLast", api_json_time(s.meta.checkpoint_last_ms));
    return json_pack(
        "{s:s, s:I, s:I, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "hayloftVersion",
        HAYLOFT_VERSION, "uptimeSecs", (json_int_t)((now - call->admin->started_ms) / 1000),
        "residentBytes", (json_int_t)api_resident_bytes(), "buckets", (int)bucket_count, "keys",
        (int)key_count, "objects", (json_int_t)s.objects, "objectBytes", (json_int_t)s.object_bytes,
        "unfinishedUploads", (json_int_t)s.uploads, "unfinishedUploadBytes",
        (json_int_t)s.upload_bytes, "volumeCount", (json_int_t)s.data.space.volume_count,
        "compactedBytes", (json_int_t)s.data.compacted_bytes, "disk", disk, "log", log, "scrub",
        api_scrub_json(&s.data));
}

static int api_cluster_statistics(struct api_call *call, json_t **ret_json) {
    *ret_json = api_statistics(call);
    return 0;
}

static int api_node_statistics(struct api_call *call, json_t **ret_json) {
    *ret_json = api_node_result(call, api_statistics(call));
    return 0;
}

static int api_node_info(struct api_call *call, json_t **ret_json) {
    *ret_json =
        api_node_result(call, json_pack("{s:s, s:s, s:s}", "nodeId", call->admin->options.node_id,
                                        "hayloftVersion", HAYLOFT_VERSION, "dbEngine", "RocksDB"));
    return 0;
}

/* ---- background work ---- */

static json_t *api_worker(int id, const char *name, const char *state, const char *progress,
                          uint64_t queue, uint64_t errors) {
    return json_pack("{s:i, s:s, s:s, s:I, s:I, s:s, s:[]}", "id", id, "name", name, "state", state,
                     "errors", (json_int_t)errors, "queueLength", (json_int_t)queue, "progress",
                     progress, "freeform");
}

static int api_list_workers(struct api_call *call, json_t **ret_json) {
    struct object_stats s;
    object_stats(api_store(call), &s);
    char progress[64] = "";
    if (s.data.scrubbing && s.data.scrub_bytes_total > 0) {
        (void)snprintf(
            progress, sizeof(progress), "%llu%%",
            (unsigned long long)(s.data.scrub_bytes_done * 100 / s.data.scrub_bytes_total));
    }
    const char *scrub = s.data.scrub_paused ? "paused" : s.data.scrubbing ? "busy" : "idle";
    json_t *workers = json_pack(
        "[o, o, o, o]",
        api_worker(1, "checkpoint", s.meta.log.held_bytes > 0 ? "waiting" : "idle", "",
                   s.meta.log.held_bytes, 0),
        api_worker(2, "compaction", s.data.compacting ? "busy" : "idle", "", s.data.garbage_bytes,
                   0),
        api_worker(3, "reclaim", s.data.free_queue_bytes > 0 ? "busy" : "idle", "",
                   s.data.free_queue_bytes, 0),
        api_worker(4, "scrub", scrub, progress,
                   s.data.scrubbing ? s.data.scrub_bytes_total - s.data.scrub_bytes_done : 0,
                   s.data.damaged_records));
    *ret_json = api_node_result(call, workers);
    return 0;
}

struct api_damage_list {
    struct api_call *call;
    json_t *list;
};

/* "photos/2026/a.jpg", as people know it; of a bucket that is gone its id. */
static json_t *api_damage_origin(struct api_call *call, struct slice origin_key) {
    uint64_t bucket;
    struct slice key;
    if (!directory_origin(origin_key, &bucket, &key)) {
        return api_json_slice(origin_key);
    }
    char id[API_BUCKET_ID_SIZE];
    api_bucket_id(bucket, id);
    struct slice name = slice_str(id);
    struct directory_alias *aliases;
    uint32_t count = 0;
    if (directory_aliases(api_store(call), bucket, api_pool(call), &aliases, &count) == 0) {
        for (uint32_t i = 0; i < count; i++) {
            name = aliases[i].key_id.size == 0 ? aliases[i].name : name;
        }
    }
    CLEANUP_BUF struct buf text = {0};
    buf_append(&text, name.data, name.size);
    buf_append_str(&text, "/");
    buf_append(&text, key.data, key.size);
    return api_json_slice(buf_slice(&text));
}

static int api_damage(void *arg, const struct data_damage *damage) {
    struct api_damage_list *out = arg;
    if (json_array_size(out->list) >= 1000) {
        return 0;
    }
    char body[40];
    (void)snprintf(body, sizeof(body), "%016llx%016llx", (unsigned long long)damage->id.high,
                   (unsigned long long)damage->id.low);
    (void)json_array_append_new(
        out->list, json_pack("{s:i, s:I, s:s, s:o, s:s, s:o}", "volume", (int)damage->volume,
                             "offset", (json_int_t)damage->off, "body", body, "origin",
                             api_damage_origin(out->call, damage->origin_key), "error",
                             error_name(damage->err), "found", api_json_time(damage->found_ms)));
    return 0;
}

static int api_scrub_status(struct api_call *call, json_t **ret_json) {
    struct data_stats stats;
    data_stats(object_data(api_store(call)), &stats);
    struct api_damage_list damage = {call, json_array()};
    int err = data_damage_each(object_data(api_store(call)), api_damage, &damage);
    if (err < 0) {
        json_decref(damage.list);
        return err;
    }
    json_t *scrub = api_scrub_json(&stats);
    (void)json_object_set_new(scrub, "damaged", damage.list);
    *ret_json = scrub;
    return 0;
}

/* {"repairType": {"scrub": "start"}}. Garage's other repairs have nothing to do here: say what
 * does their work. */
static int api_launch_repair(struct api_call *call, json_t **ret_json) {
    static const char *const known[] = {"repairType", NULL};
    static const char *const known_scrub[] = {"scrub", NULL};
    static const char *const commands[] = {"start", "pause", "resume", "cancel"};
    int err = api_check_members(call, call->body, known);
    if (err < 0) {
        return err;
    }
    json_t *type = json_object_get(call->body, "repairType");
    if (json_is_string(type)) {
        return api_fail(call, -HL_ERR_UNSUPPORTED,
                        "Nothing to launch for \"%.40s\": names and bytes are committed together "
                        "here. {\"scrub\": \"start\"} verifies all data; `hayloft rebuild` makes "
                        "the metadata anew.",
                        json_string_value(type));
    }
    if (!json_is_object(type)) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST, "\"repairType\" is missing.");
    }
    const char *command = NULL;
    err = api_check_members(call, type, known_scrub);
    err = err < 0 ? err : api_get_string(call, type, "scrub", true, &command);
    if (err < 0) {
        return err;
    }
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        if (strcmp(command, commands[i]) == 0) {
            err = data_scrub_command(object_data(api_store(call)), (enum data_scrub_command)i);
            if (err == -HL_ERR_INVALID) {
                return api_fail(call, -HL_ERR_INVALID_REQUEST,
                                "A scrub cannot be told to %s now; `hayloft scrub status` shows "
                                "its state.",
                                command);
            }
            if (err == 0) {
                *ret_json = api_node_result(call, json_null());
            }
            return err;
        }
    }
    return api_fail(call, -HL_ERR_INVALID_REQUEST, "\"scrub\" is start, pause, resume or cancel.");
}

const struct api_endpoint api_node_endpoints[] = {
    {"GetClusterStatus", false, api_cluster_status},
    {"GetClusterHealth", false, api_cluster_health},
    {"GetClusterStatistics", false, api_cluster_statistics},
    {"GetNodeInfo", false, api_node_info},
    {"GetNodeStatistics", false, api_node_statistics},
    {"ListWorkers", true, api_list_workers},
    {"LaunchRepairOperation", true, api_launch_repair},
    {"GetScrubStatus", false, api_scrub_status},
};
const size_t api_node_endpoint_count = ARRAY_COUNT(api_node_endpoints);
