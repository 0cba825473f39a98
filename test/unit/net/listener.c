/* Listening: addresses, ports in use, unix sockets, running out of descriptors. */
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/logger.h"
#include "net/listener.h"

static struct os_clock_sim sim;
static struct loop *loops[2];
static int taken, taken_exhausted;
static char last_peer[LISTENER_PEER_SIZE];

static void take(void *arg, uint32_t index, int fd, const struct sockaddr *peer,
                 socklen_t peer_size, bool exhausted) {
    taken++;
    taken_exhausted += exhausted;
    listener_format_peer(peer, peer_size, last_peer);
    close(fd);
}

static int set_up(void **state) {
    os_clock_sim_init(&sim, 0);
    taken = taken_exhausted = 0;
    return loop_new(&sim.clock, &loops[0]) + loop_new(&sim.clock, &loops[1]);
}

static int tear_down(void **state) {
    loop_free(loops[0]);
    loop_free(loops[1]);
    return 0;
}

static void turns(void) {
    for (int i = 0; i < 5; i++) {
        loop_turn(loops[0], 0);
        loop_turn(loops[1], 0);
    }
}

static int connect_port(int family, uint16_t port) {
    int fd = socket(family, SOCK_STREAM, 0);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int result = family == AF_INET ? connect(fd, (struct sockaddr *)&in, sizeof(in))
                                   : connect(fd, (struct sockaddr *)&in6, sizeof(in6));
    if (result != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void one_socket_a_loop_and_both_families(void **state) {
    struct listener_group *group;
    uint16_t port = 0;
    assert_int_equal(listener_open("[::]:0", loops, 2, take, NULL, &group, &port), 0);
    assert_int_not_equal(port, 0);
    int fds[40];
    for (int i = 0; i < 40; i++) {
        fds[i] = connect_port(AF_INET, port);
        assert_true(fds[i] >= 0);
    }
    turns();
    assert_int_equal(taken, 40);
    assert_memory_equal(last_peer, "127.0.0.1:", 10); /* a mapped address is shown as IPv4 */
    int six = connect_port(AF_INET6, port);
    if (six >= 0) { /* not every container has IPv6 */
        turns();
        assert_int_equal(taken, 41);
        assert_memory_equal(last_peer, "[::1]:", 6);
        close(six);
    }
    for (int i = 0; i < 40; i++) {
        close(fds[i]);
    }
    listener_stop(group, 0);
    listener_stop(group, 1);
    assert_int_equal(connect_port(AF_INET, port), -1);
    listener_free(group);
}

static void port_in_use_is_noticed(void **state) {
    struct listener_group *group, *second = NULL;
    uint16_t port;
    char address[32];
    assert_int_equal(listener_open("127.0.0.1:0", loops, 2, take, NULL, &group, &port), 0);
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    assert_int_equal(listener_open(address, loops, 2, take, NULL, &second, NULL), -HL_ERR_BUSY);
    assert_null(second);
    listener_free(group);
    assert_int_equal(listener_open(address, loops, 2, take, NULL, &second, NULL), 0);
    listener_free(second);
}

static void nonsense_is_refused(void **state) {
    const char *bad[] = {"",           "3900",           "::1:3900",
                         "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536",
                         "unix:",      "[::]:99999999"};
    struct listener_group *group;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(listener_open(bad[i], loops, 1, take, NULL, &group, NULL),
                         -HL_ERR_INVALID);
    }
}

static void unix_socket_is_private_and_replaces_a_stale_one(void **state) {
    char dir[] = "/tmp/hayloft-listener-XXXXXX";
    char path[64], address[80];
    struct listener_group *group, *second;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/sock", dir);
    snprintf(address, sizeof(address), "unix:%s", path);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, path, strlen(path) + 1);
    int stale = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(stale, (struct sockaddr *)&name, sizeof(name)), 0);
    close(stale); /* as after a crash: the file stays */

    assert_int_equal(listener_open(address, loops, 2, take, NULL, &group, NULL), 0);
    assert_int_equal(listener_open(address, loops, 2, take, NULL, &second, NULL), -HL_ERR_BUSY);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    turns();
    assert_true(taken >= 1);
    assert_string_equal(last_peer, "unix");
    close(fd);
    listener_free(group);
    assert_int_equal(access(path, F_OK), -1);
    rmdir(dir);
}

/* At the limit a client still gets a polite end, the loop does not spin, and later clients are
 * served. */
static void out_of_descriptors(void **state) {
    struct listener_group *group;
    uint16_t port;
    assert_int_equal(listener_open("127.0.0.1:0", loops, 1, take, NULL, &group, &port), 0);
    int fd = connect_port(AF_INET, port);
    assert_true(fd >= 0);
    struct rlimit limit, low;
    getrlimit(RLIMIT_NOFILE, &limit);
    int hoard[1024], count = 0;
    low = limit;
    low.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &low);
    while (count < 1024 && (hoard[count] = dup(fd)) >= 0) {
        count++;
    }
    turns();
    assert_int_equal(taken, 1);
    assert_int_equal(taken_exhausted, 1);
    while (count > 0) {
        close(hoard[--count]);
    }
    setrlimit(RLIMIT_NOFILE, &limit);
    int later = connect_port(AF_INET, port);
    turns();
    assert_int_equal(taken, 1); /* paused */
    sim.mono_us += 100000;
    turns();
    assert_int_equal(taken, 2);
    assert_int_equal(taken_exhausted, 1);
    close(fd);
    close(later);
    listener_free(group);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(one_socket_a_loop_and_both_families),
        TEST(port_in_use_is_noticed),
        TEST(nonsense_is_refused),
        TEST(unix_socket_is_private_and_replaces_a_stale_one),
        TEST(out_of_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
