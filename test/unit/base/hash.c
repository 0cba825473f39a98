/* Hashes and HMACs against published vectors (RFC 1321, FIPS 180-4, RFC 2202, RFC 4231) and against
 * values made with Python's hashlib and hmac for sizes around the block boundaries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/hash.h"
#include "base/text.h"

static void assert_digest(const uint8_t *digest, size_t size, const char *expected) {
    char text[2 * HASH_SIZE_MAX + 1];
    hex_encode(digest, size, text);
    assert_string_equal(text, expected);
}

static void test_published(void **state) {
    uint8_t digest[HASH_SIZE_MAX];
    hash_sum(HASH_MD5, slice_str("message digest"), digest);
    assert_digest(digest, 16, "f96b697d7cb7938d525a2f31aaf161d0");
    hash_sum(HASH_SHA1, slice_str("abc"), digest);
    assert_digest(digest, 20, "a9993e364706816aba3e25717850c26c9cd0d89d");
    hash_sum(HASH_SHA256, slice_str("abc"), digest);
    assert_digest(digest, 32, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash_sum(HASH_SHA256, SLICE_EMPTY, digest);
    assert_digest(digest, 32, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_int_equal(hash_size(HASH_MD5), 16);
    assert_int_equal(hash_size(HASH_SHA1), 20);
    assert_int_equal(hash_size(HASH_SHA256), 32);
}

/* Message of n bytes: byte i is 7 i + 3. */
static const struct {
    enum hash_kind kind;
    size_t size;
    const char *digest;
} made[] = {
    {HASH_MD5, 0, "d41d8cd98f00b204e9800998ecf8427e"},
    {HASH_MD5, 1, "8666683506aacd900bbd5a74ac4edf68"},
    {HASH_MD5, 55, "52c0e574e1198de5fe3f8f11440dcb1b"},
    {HASH_MD5, 56, "46c9907fc908ee68b1e7b8e71286a518"},
    {HASH_MD5, 63, "a62f6d59e837867693f042f5b8f5a236"},
    {HASH_MD5, 64, "7160b8fb5e9e4023d549c3971fbaeead"},
    {HASH_MD5, 65, "70bd662e7aefbda85a0f7244167b7897"},
    {HASH_MD5, 119, "e84905d4214f4d1ca56c2cdcc152b143"},
    {HASH_MD5, 120, "e3eb5a6c8669ea01a8c185b8abc8a5dc"},
    {HASH_MD5, 1000, "10046f077f2082ac19676b8079f1cb1a"},
    {HASH_SHA1, 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
    {HASH_SHA1, 1, "9842926af7ca0a8cca12604f945414f07b01e13d"},
    {HASH_SHA1, 55, "ddf57317ef34bfee3b6df83d359098930eb278bc"},
    {HASH_SHA1, 56, "a0d492bb0fc889d0eca3bc137066ab6f4f74f369"},
    {HASH_SHA1, 63, "c55856749bef509bdfe6bfebfc7bf4e793e82132"},
    {HASH_SHA1, 64, "bede92be29c3874e1b54ddc77988d606fc857a8e"},
    {HASH_SHA1, 65, "b05a80522b053d6dc7e0a517d0e70212c7dad11f"},
    {HASH_SHA1, 119, "504e27376a6e0f0dba8295b85cb25dc4dfa17d23"},
    {HASH_SHA1, 120, "82134b02fb3f702491be9bed581eeab59334acb2"},
    {HASH_SHA1, 1000, "4231a8a50a10fa9758db8ec71fdef855b751048a"},
    {HASH_SHA256, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {HASH_SHA256, 1, "084fed08b978af4d7d196a7446a86b58009e636b611db16211b65a9aadff29c5"},
    {HASH_SHA256, 55, "e7313d333c272e639f790978283f9eb392e843d0f29b7016828bb1daa4aac70b"},
    {HASH_SHA256, 56, "4324d65f3c103567f5589c710bc08f8523f929a9272e3af36fc968e52abc6c27"},
    {HASH_SHA256, 63, "81c80242132f230c3bd41b3e63bbcff16107339549214a99614ff26664625055"},
    {HASH_SHA256, 64, "39e3d7b6b5d075d37d053ad89b24b41bef4f3c29760c84447cab3f3be1882241"},
    {HASH_SHA256, 65, "aacca6ff74fdbb296d165a45cecfa04e5127bc008770fbbdd48006f2d2fae95e"},
    {HASH_SHA256, 119, "9ce7368e4daf32341631b492e80359dc9f594b48453cd0dd5bf0b19279cc177e"},
    {HASH_SHA256, 120, "7836b787757e95e58b3ca5aec90b1b004e8deba1e50e9675af9cabf1a13a04b5"},
    {HASH_SHA256, 1000, "1e9bc38cbf860b9ec31918b065f9b52476c549a782e0e7990bed8ce3868d2371"},
};

static void test_sizes_and_splits(void **state) {
    uint8_t data[1000], digest[HASH_SIZE_MAX];
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 7 + 3);
    }
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        hash_sum(made[i].kind, slice_of(data, made[i].size), digest);
        assert_digest(digest, hash_size(made[i].kind), made[i].digest);
        /* In pieces, twice with one context: final resets. */
        struct hash *hash = hash_new(made[i].kind);
        assert_non_null(hash);
        for (int round = 0; round < 2; round++) {
            for (size_t off = 0, n; off < made[i].size; off += n) {
                n = made[i].size - off < 13 ? made[i].size - off : 13;
                hash_update(hash, data + off, n);
            }
            hash_final(hash, digest);
            assert_digest(digest, hash_size(made[i].kind), made[i].digest);
        }
        hash_free(hash);
    }
}

/* A context that was given back half-used must come out fresh. */
static void test_recycled_context_is_fresh(void **state) {
    uint8_t digest[HASH_SIZE_MAX];
    struct hash *hashes[20];
    for (int i = 0; i < 20; i++) {
        hashes[i] = hash_new(HASH_MD5);
        hash_update(hashes[i], "rubbish", 7);
    }
    for (int i = 0; i < 20; i++) {
        hash_free(hashes[i]);
    }
    hash_free(NULL);
    struct hash *hash = hash_new(HASH_MD5);
    hash_update(hash, "abc", 3);
    hash_final(hash, digest);
    assert_digest(digest, 16, "900150983cd24fb0d6963f7d28e17f72");
    hash_free(hash);
}

static const struct {
    size_t key_size, size;
    const char *sha1, *sha256;
} made_hmac[] = {
    {0, 0, "fbdb1d1b18aa6c08324b7d64b71fb76370690e1d",
     "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"},
    {0, 64, "f70877f916deaa7729b07ac730eb139bb90231a2",
     "3bee6947db78828489afa4af1a3638897419f73ecc39c4a51c89cbfb29ee3647"},
    {0, 152, "77da2e0f8431fd2e3b0cbf5b1ea7889d5eba7007",
     "a68ffb7b05262b55d7373793db2dbcc81ce556e4c8f2092632688af15bd7bd62"},
    {20, 0, "6364d29e3caafa66c0afbc474455849546b3744f",
     "def1da76905a85c4f4017ea88fa1f474670984158c88e7d823210b4f4d9be54e"},
    {20, 64, "4182baf2660ad2186ab206bc273c180338c95d82",
     "1c47afe0ae87d4406f90822e607701280b21dfe462a04f4100421d59806b2e4c"},
    {20, 152, "2a2b39431ec26aefe874d6eba4f803e1be5b41ac",
     "1e9606a5c010fa1a9cd71542f018f88eb5f5b8614f375adfd7a8bda507f4c487"},
    {63, 0, "dda68cea60210bf90040334b928206df5f28b8f7",
     "74421e63154a57f0258d29813cac0b27ad877eae84f2193912271ae56b96a2f3"},
    {63, 64, "56511a3af0d139eaa4ae7e4b7be0776eedcc7e71",
     "73729ec4222f5546a66b9fd14326066bf8f180fd0553d4087320a8ab3b9991e6"},
    {63, 152, "47bb90fefa3075762603cb0f235b057da202b182",
     "279666706eccbb572ccc36d69a7f200125d3fe249956f7c04f92bdee78601dab"},
    {64, 0, "8719254cc34e54ea4d2a23e92fd75da1e2dbd82a",
     "aee00a9689d79e3eb4a6f15a1797720c49ee66d81c12b4d53ccf63360caafd33"},
    {64, 64, "840f2afe19da45938cd7fda9c20c24c6cb416c75",
     "92d6234659d5e087f22e7b7179c9a73771e16fb2eeac0fcfb60dcc6644f51260"},
    {64, 152, "a9473a3fc0cef1f64eee6250cdd6b2914f9d017a",
     "222fb7c5a0c89b560863b2f552fb76bb16b0ec5bfe1e264d9c6b497a01bc8773"},
    {65, 0, "ca91411f3c22bbe837ec504ae61257f262a3afb6",
     "5b5fcb09474bfffac181368b0e4e066011e08c177da88df000af31ec127afb2b"},
    {65, 64, "7571e1e0a95bc0b81ba0a3a6c1ab946b996bb04b",
     "4ee871c2ee846eb0a8249bc19d7176af8957a40c9785deaa45695a6f6d2f584f"},
    {65, 152, "0b35d11869ce2276b07ff8565405589d14082b38",
     "eb65a9239a81d47657045e48224b5ed5a62607e2a67949150afbab19b49d3226"},
    {131, 0, "9d4e164bbdf6cf12bd1bfc35f2a27b1120e3eae5",
     "8a12d8ddd7a85e35845d3c495f2d8070da1fec4a5052a44b6fbb024cf8d5c554"},
    {131, 64, "a42371f8981ade2894c3e6dec2a9856b8b001a1e",
     "32c3820af956dc288bdfab7b9dd1b001fe1c024d55a7af4da805409af942b9a6"},
    {131, 152, "fb517915443f3abfdeb5ca07fecb20ce3e266a07",
     "fa002c1562170a82b5f2ba6ba119da18672e435f992cd501f3e21562c1ea0aff"},
};

static void test_hmac(void **state) {
    uint8_t key[131], data[152], mac[32];
    for (size_t i = 0; i < sizeof(key); i++) {
        key[i] = (uint8_t)(i * 5 + 1);
    }
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 7 + 3);
    }
    for (size_t i = 0; i < sizeof(made_hmac) / sizeof(made_hmac[0]); i++) {
        struct slice k = slice_of(key, made_hmac[i].key_size);
        struct slice d = slice_of(data, made_hmac[i].size);
        hmac_sha1(k, d, mac);
        assert_digest(mac, 20, made_hmac[i].sha1);
        hmac_sha256(k, d, mac);
        assert_digest(mac, 32, made_hmac[i].sha256);
    }
    /* RFC 4231 test case 2, RFC 2202 test case 2. */
    struct slice jefe = slice_str("Jefe"), what = slice_str("what do ya want for nothing?");
    hmac_sha256(jefe, what, mac);
    assert_digest(mac, 32, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    hmac_sha1(jefe, what, mac);
    assert_digest(mac, 20, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
}

static void *hash_in_thread(void *arg) {
    uint8_t digest[HASH_SIZE_MAX], *ret = malloc(HASH_SIZE_MAX);
    for (int i = 0; i < 1000; i++) {
        hash_sum(HASH_SHA256, slice_str(arg), digest);
    }
    memcpy(ret, digest, sizeof(digest));
    return ret;
}

static void test_threads_do_not_mix(void **state) {
    static char *const texts[] = {"one", "two", "three", "four"};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, hash_in_thread, texts[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        uint8_t expected[HASH_SIZE_MAX];
        void *seen;
        pthread_join(threads[i], &seen);
        hash_sum(HASH_SHA256, slice_str(texts[i]), expected);
        assert_memory_equal(seen, expected, sizeof(expected));
        free(seen);
    }
}

static void test_compare_and_wipe(void **state) {
    uint8_t a[32], b[32], zeros[32] = {0};
    memset(a, 7, sizeof(a));
    memcpy(b, a, sizeof(b));
    assert_true(equal_constant_time(a, b, sizeof(a)));
    for (size_t i = 0; i < sizeof(b); i++) {
        b[i] ^= 0x80;
        assert_false(equal_constant_time(a, b, sizeof(a)));
        b[i] ^= 0x80;
    }
    assert_true(equal_constant_time(a, b, 0));
    wipe(a, sizeof(a));
    assert_memory_equal(a, zeros, sizeof(a));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_sizes_and_splits),
        cmocka_unit_test(test_recycled_context_is_fresh),
        cmocka_unit_test(test_hmac),
        cmocka_unit_test(test_threads_do_not_mix),
        cmocka_unit_test(test_compare_and_wipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
