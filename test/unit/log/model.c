/* The log against a model, on a disk that loses, tears and reorders what was not synced: random
 * batches, releases, preparing and trimming, ended by a power cut inside a random disk operation
 * (recovery's own included), by the death of the process alone, or by a failed sync. After each
 * start: every acknowledged record is there, in order, with its own content; after them at most a
 * beginning of the last batch; nothing else. A failing seed is printed with the command that
 * runs it alone. */
#include "testlog.h"

#include <fcntl.h>
#include <inttypes.h>

#include "base/failpoint.h"

#define SEEDS          150
#define LIVES          10
#define STEPS_MAX      40
#define OPERATIONS_MAX 120

static uint64_t seed_first = 1;
static uint64_t seed_last = SEEDS;
static uint64_t seed_running;

struct totals {
    uint64_t power_cuts;
    uint64_t cuts_in_recovery;
    uint64_t deaths;
    uint64_t failed_syncs;
    uint64_t kept_unacknowledged;
    uint64_t busy;
};

/* Starts the log, with power cuts inside the recovery now and then. */
static void start(struct testlog *t, struct prng *prng, struct totals *totals) {
    for (;;) {
        uint64_t acked = t->acked;
        sim_fs_crash_after(t->sim, prng_below(prng, 3) == 0 ? 1 + prng_below(prng, 25) : 0);
        int err = testlog_open(t);
        if (err == 0 && !sim_fs_crashed(t->sim)) {
            sim_fs_crash_after(t->sim, 0);
            totals->kept_unacknowledged += t->acked - acked;
            if (prng_below(prng, 3) > 0) {
                return;
            }
            /* What a recovery has reported must survive whatever comes next. */
            err = -HL_ERR_CRASHED;
        }
        assert_int_equal(err, -HL_ERR_CRASHED);
        totals->cuts_in_recovery++;
        sim_fs_crash(t->sim);
    }
}

/* One random call; its error. */
static int step(struct testlog *t, struct prng *prng, struct totals *totals) {
    uint64_t dice = prng_below(prng, 100);
    if (dice < 75) {
        int err = testlog_append(t, 1 + (int)prng_below(prng, prng_below(prng, 10) == 0 ? 40 : 5));
        if (err == -HL_ERR_BUSY) {
            totals->busy++;
            return testlog_release(t, t->acked + 1);
        }
        return err;
    }
    if (dice < 90) {
        uint64_t id = t->needed + prng_below(prng, t->acked + 2 - t->needed);
        return testlog_release(t, id);
    }
    return dice < 95 ? log_prepare(t->log) : log_trim(t->log);
}

static void live(struct testlog *t, struct prng *prng, struct totals *totals) {
    start(t, prng, totals);
    if (prng_below(prng, 4) > 0) {
        sim_fs_crash_after(t->sim, 1 + prng_below(prng, OPERATIONS_MAX));
    } else if (prng_below(prng, 3) == 0) {
        sim_fs_fail_sync(t->sim, 1 + prng_below(prng, 20));
    }
    int err = 0;
    for (uint64_t i = prng_below(prng, STEPS_MAX); i > 0 && err == 0; i--) {
        err = step(t, prng, totals);
    }
    if (err != 0) {
        /* Whatever failed, the log is stopped. */
        struct log_record record = {.kind = LOG_ENTRY};
        assert_int_equal(log_append(t->log, &record, 1), -HL_ERR_CRASHED);
        totals->failed_syncs += !sim_fs_crashed(t->sim);
    }
    sim_fs_crash_after(t->sim, 0);
    sim_fs_fail_sync(t->sim, 0);
    log_close(t->log);
    t->log = NULL;
    if (sim_fs_crashed(t->sim) || prng_below(prng, 3) == 0) {
        totals->power_cuts++;
        sim_fs_crash(t->sim);
    } else {
        totals->deaths++; /* the page cache lives on */
    }
}

static void test_crashes(void **state) {
    struct totals totals = {0};
    for (uint64_t seed = seed_first; seed <= seed_last; seed++) {
        struct testlog *t = malloc(sizeof(*t));
        struct prng prng;
        prng_init(&prng, seed);
        testlog_init(t, seed, 0);
        seed_running = seed;
        for (int i = 0; i < LIVES; i++) {
            live(t, &prng, &totals);
        }
        sim_fs_crash(t->sim);
        assert_int_equal(testlog_open(t), 0);
        testlog_done(t);
        free(t);
    }
    print_message("power cuts %" PRIu64 ", in recovery %" PRIu64 ", deaths %" PRIu64
                  ", failed syncs %" PRIu64 ", unacknowledged records kept %" PRIu64
                  ", busy %" PRIu64 "\n",
                  totals.power_cuts, totals.cuts_in_recovery, totals.deaths, totals.failed_syncs,
                  totals.kept_unacknowledged, totals.busy);
    if (seed_first != seed_last) {
        assert_true(totals.cuts_in_recovery > 0 && totals.kept_unacknowledged > 0);
        assert_true(totals.deaths > 0 && totals.failed_syncs > 0 && totals.busy > 0);
    }
}

/* Every place in the code where a crash is interesting, each several times. */
static const char *const failpoints[] = {
    "log.append.before_write", "log.append.before_sync", "log.append.synced",
    "log.segment.created",     "log.segment.renamed",    "log.release.renamed",
    "log.release.unnamed",     "log.release.unlinked",   "log.trim.unlinked",
    "log.recover.rewritten",   "log.recover.erasing",    "log.recover.erased",
    "log.recover.unlinked",    "log.recover.resumed",
};
#define FAILPOINT_CRASHES   5
#define FAILPOINT_SEEDS_MAX 400

static struct sim_fs *sim_running;
static uint64_t failpoint_crashes;

static void crash_at_failpoint(const char *name) {
    failpoint_crashes++;
    sim_fs_crash_after(sim_running, 1);
}

static void crash_at(const char *name, uint64_t seed) {
    struct totals totals = {0};
    struct testlog *t = malloc(sizeof(*t));
    struct prng prng;
    prng_init(&prng, seed);
    testlog_init(t, seed, 0);
    sim_running = t->sim;
    for (int i = 0; i < LIVES; i++) {
        assert_true(failpoint_set(name, "crash", 1 + prng_below(&prng, 3)));
        live(t, &prng, &totals);
    }
    failpoint_clear();
    sim_fs_crash(t->sim);
    assert_int_equal(testlog_open(t), 0);
    testlog_done(t);
    free(t);
}

static void test_failpoints(void **state) {
    if (!failpoint_set(failpoints[0], "crash", 1)) {
        skip();
    }
    failpoint_set_crash_handler(crash_at_failpoint);
    for (size_t i = 0; i < sizeof(failpoints) / sizeof(failpoints[0]); i++) {
        failpoint_crashes = 0;
        for (uint64_t seed = 1; failpoint_crashes < FAILPOINT_CRASHES; seed++) {
            if (seed == FAILPOINT_SEEDS_MAX) {
                fail_msg("%s was not reached", failpoints[i]);
            }
            seed_running = seed;
            crash_at(failpoints[i], seed);
        }
    }
    failpoint_clear();
}

int main(int argc, char **argv) {
    if (argc == 2) {
        seed_first = strtoull(argv[1], NULL, 10);
        seed_last = seed_first;
    } else if (argc == 3) {
        seed_first = strtoull(argv[1], NULL, 10);
        seed_last = strtoull(argv[2], NULL, 10);
    }
    logger_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC)); /* thousands of planned failures */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crashes),
                                       cmocka_unit_test(test_failpoints)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed != 0) {
        print_message("replay: %s %" PRIu64 "\n", argv[0], seed_running);
    }
    return failed;
}
