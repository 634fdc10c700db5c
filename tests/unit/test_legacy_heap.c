#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "raw.h"

static void sampled_counts_are_scaled(void **state)
{
    RAW_COMPARE(codec_read_legacy,
                "heap profile:   5:   9000 [  20:  78900] @ heap_v2/524288\n"
                "     1:     4096 [     2:     8192] @ 0x400101 0x400202 0x7f0000002100\n"
                "# a comment\n"
                "    -1:    -144 [    10:     1440] @ 0x400101\n"
                "     0:       0 [     0:        0] @ 0x1\n"
                "MAPPED_LIBRARIES:\n"
                "00400000-00500000 r-xp 00000000 fd:01 1234 /usr/bin/server\n"
                "7f0000000000-7f0000001000 r--p 00000000 fd:01 99 /lib/libc.so.6\n"
                "7f0000002000-7f0000009000 r-xp 00002000 fd:01 99 /lib/libc.so.6\n",
                "space/bytes 524288, 0 ns\n"
                "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes\n"
                "257 1052677 128 526338: 1 2 3 | bytes=4096\n"
                "36413 5243600 -3641 -524360: 1 | bytes=144\n"
                "0 0 0 0: 4 | bytes=0\n"
                "Locations\n"
                "1: 0x400100 M=1\n"
                "2: 0x400201 M=1\n"
                "3: 0x7f00000020ff M=2\n"
                "4: 0x0\n"
                "Mappings\n"
                "1: 0x400000/0x500000/0x0 /usr/bin/server \n"
                "2: 0x7f0000002000/0x7f0000009000/0x2000 /lib/libc.so.6 \n");
    RAW_COMPARE(codec_read_legacy,
                "heap profile: 1: 1024 [0: 0] @ heap/4096\n"
                "1: 1024 [0: 0] @ 0x1001\n",
                "space/bytes 2048, 0 ns\n"
                "objects/count space/bytes\n"
                "2 2602: 1 | bytes=1024\n"
                "Locations\n"
                "1: 0x1000 M=1\n"
                "Mappings\n"
                "1: 0x0/0xffffffffffffffff/0x0  \n");
}

static void plain_counts_are_not(void **state)
{
    RAW_COMPARE(codec_read_legacy,
                "heap profile:      3:     1024 [     3:     1024] @ heapprofile\n"
                "     3:     1024 [     3:     1024] @ 0x1001 0x2001\n",
                "space/bytes 1, 0 ns\n"
                "objects/count space/bytes\n"
                "3 1024: 1 2 | bytes=341\n"
                "Locations\n"
                "1: 0x1000 M=1\n"
                "2: 0x2000 M=1\n"
                "Mappings\n"
                "1: 0x0/0xffffffffffffffff/0x0  \n");
    RAW_COMPARE(codec_read_legacy,
                "heap profile:      2:     8192 [     2:     8192] @ growthz\n"
                "     2:     8192 [     2:     8192] @ 0x1001 0x2001\n",
                "space/bytes 1, 0 ns\n"
                "objects/count space/bytes\n"
                "2 8192: 1 2 | bytes=4096\n"
                "Locations\n"
                "1: 0x1000 M=1\n"
                "2: 0x2000 M=1\n"
                "Mappings\n"
                "1: 0x0/0xffffffffffffffff/0x0  \n");
    RAW_COMPARE(codec_read_legacy,
                "heap profile:      2:     8192 [     2:     8192] @ fragmentation\n"
                "garbage in front 2: 8192 [ 2: 8192 ] @ 0x1001 0x2001\n",
                "space/bytes 1, 0 ns\n"
                "objects/count space/bytes\n"
                "2 8192: 1 2 | bytes=4096\n"
                "Locations\n"
                "1: 0x1000 M=1\n"
                "2: 0x2000 M=1\n"
                "Mappings\n"
                "1: 0x0/0xffffffffffffffff/0x0  \n");
}

#define HEAD "heap profile: 1: 2 [3: 4] @ heap_v2/524288\n"

static void broken_samples_are_refused(void **state)
{
    RAW_REFUSED(codec_read_legacy, HEAD "1: 2 [3: 4]\n", "line 2: expected");
    RAW_REFUSED(codec_read_legacy, HEAD "\n1: 2 [3: 4] @ 0x11112222333344445\n",
                "line 3: an address has more than 64 bits");
    RAW_REFUSED(codec_read_legacy, HEAD "0: 2 [3: 4] @ 0x1\n", "inuse count was 0");
    RAW_REFUSED(codec_read_legacy, HEAD "1: 2 [0: 4] @ 0x1\n", "allocation count was 0");
    RAW_REFUSED(codec_read_legacy, HEAD "1: 99999999999999999999 [3: 4] @ 0x1\n",
                "more than 63 bits");
}

static void other_headers_are_not_heap(void **state)
{
    RAW_REFUSED(codec_read_legacy, "heap profile: 1: 2 [3: 4] @ heapx\n", "unrecognized");
    RAW_REFUSED(codec_read_legacy, "heap profile: 1: 2 [3: 4]  @ growth\n", "unrecognized");
    RAW_REFUSED(codec_read_legacy, "heap profile: 1: 2 [3: 4] @ heap_v2/99999999999999999999\n",
                "unrecognized");
}

// The smallest number divided by -1, and floats beyond int64.
static void extremes_do_not_trap(void **state)
{
    RAW_COMPARE(codec_read_legacy,
                "heap profile: 1: 2 [1: 2] @ heap_v2/524288\n"
                "-1: -9223372036854775808 [1: 1] @\n"
                "9223372036854775807: 1 [1: 1] @\n",
                "space/bytes 524288, 0 ns\n"
                "objects/count space/bytes\n"
                "-1 -9223372036854775808: | bytes=-9223372036854775808\n"
                "-9223372036854775808 -9223372036854775808: | bytes=0\n"
                "Locations\nMappings\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sampled_counts_are_scaled),  cmocka_unit_test(plain_counts_are_not),
        cmocka_unit_test(broken_samples_are_refused), cmocka_unit_test(other_headers_are_not_heap),
        cmocka_unit_test(extremes_do_not_trap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
