// Digests of FIPS 180-4's examples and RFC 4231's keys.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/hmac.h"

static void assert_digest(const uint8_t digest[SHA256_SIZE], const char *want)
{
    char hex[2 * SHA256_SIZE + 1] = "";
    str_hex(hex, digest, SHA256_SIZE);
    assert_string_equal(hex, want);
}

static void digests_of_the_standard(void **state)
{
    static const char *const cases[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    uint8_t digest[SHA256_SIZE];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sha256(str_from(cases[i][0]), digest);
        assert_digest(digest, cases[i][1]);
    }
    char *text = malloc(1000000);
    memset(text, 'a', 1000000);
    sha256((struct str){text, 1000000}, digest);
    assert_digest(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(text);
}

static void digests_of_the_rfc(void **state)
{
    char ones[20], many[131], text[50];
    memset(ones, 0x0b, sizeof ones);
    memset(many, 0xaa, sizeof many);
    memset(text, 0xdd, sizeof text);
    const struct {
        struct str key, text;
        const char *digest;
    } cases[] = {
        {{ones, 20},
         STR("Hi There"),
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {STR("Jefe"), STR("what do ya want for nothing?"),
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {{many, 20},
         {text, 50},
         "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
        {{many, 131},
         STR("Test Using Larger Than Block-Size Key - Hash Key First"),
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
        {{many, 131},
         STR("This is a test using a larger than block-size key and a larger than block-size data. "
             "The key needs to be hashed before being used by the HMAC algorithm."),
         "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
    };
    uint8_t digest[SHA256_SIZE];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hmac_sha256(cases[i].key, &cases[i].text, 1, digest);
        assert_digest(digest, cases[i].digest);
        // In parts of every size.
        for (size_t n = 0; n <= cases[i].text.n; n++) {
            const struct str parts[] = {str_from_to(cases[i].text, 0, n), STR(""),
                                        str_from_to(cases[i].text, n, cases[i].text.n)};
            hmac_sha256(cases[i].key, parts, 3, digest);
            assert_digest(digest, cases[i].digest);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_of_the_standard),
        cmocka_unit_test(digests_of_the_rfc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
