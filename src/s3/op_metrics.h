/* Request counters and durations by operation. Storage is static; a series is registered when its
 * operation is first used, so that /metrics shows what happens and not the whole table. */
#ifndef S3_OP_METRICS_H
#define S3_OP_METRICS_H

#include "s3/route.h"

/* route NULL: a request that matched no row. Any thread. */
void s3_op_metrics_count(const struct s3_route *route, int status, uint64_t duration_us);

#endif
