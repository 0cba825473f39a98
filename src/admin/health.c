/* /health: 200 while the store accepts reads and writes, 503 after a fatal disk error. Answered on
 * the loop without touching the disk, so that a slow disk does not make a healthy node look dead.
 */
#include "admin/api_int.h"

json_t *api_health_json(struct admin *admin) {
    bool failed = meta_failed(object_meta(admin->options.store));
    return json_pack("{s:s, s:i, s:i, s:i, s:i}", "status", failed ? "unavailable" : "healthy",
                     "knownNodes", 1, "connectedNodes", 1, "storageNodes", 1, "storageNodesUp",
                     failed ? 0 : 1);
}

void api_health(struct admin *admin, struct http_request *req) {
    bool failed = meta_failed(object_meta(admin->options.store));
    http_response_header_str(req, "Content-Type", "text/plain; charset=utf-8");
    http_response_header_str(req, "Cache-Control", "no-store");
    if (failed) {
        http_respond(req, 503,
                     SLICE_LITERAL("unavailable: a disk error stopped this store; see its log, "
                                   "then start it again\n"));
    } else {
        http_respond(req, 200, SLICE_LITERAL("healthy\n"));
    }
}
