#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "raw.h"

static void go_counts(void **state)
{
    RAW_COMPARE(codec_read_legacy,
                "# a comment comes first\n"
                "\n"
                "goroutine profile: total 13\n"
                "3 @ 0x401001 0x402001\n"
                "#\t0x401000\tmain.work+0x10\t/src/main.go:12\n"
                "\n"
                "010 @ 0x401001 0x403001\n"
                "2 @ 0x0\n",
                "goroutine/count 1, 0 ns\n"
                "goroutine/count\n"
                "3: 1 2\n"
                "8: 1 3\n"
                "2: 4\n"
                "Locations\n"
                "1: 0x401000 M=1\n"
                "2: 0x402000 M=1\n"
                "3: 0x403000 M=1\n"
                "4: 0xffffffffffffffff M=1\n"
                "Mappings\n"
                "1: 0x0/0xffffffffffffffff/0x0  \n");
}

static void go_counts_are_strict(void **state)
{
#define HEAD "threadcreate profile: total 2\n"
    RAW_REFUSED(codec_read_legacy, HEAD "2 @ 0x1  0x2\n", "line 2: expected `count @");
    RAW_REFUSED(codec_read_legacy, HEAD "2 @\n", "malformed");
    RAW_REFUSED(codec_read_legacy, HEAD "2 @ 0xA\n", "malformed");
    RAW_REFUSED(codec_read_legacy, HEAD "08 @ 0x1\n", "malformed");
    RAW_REFUSED(codec_read_legacy, "threadcreate  profile: total 2\n2 @ 0x1\n", "unrecognized");
    RAW_REFUSED(codec_read_legacy, "threadcreate profile: total 2 \n2 @ 0x1\n", "unrecognized");
#undef HEAD
}

static void threads(void **state)
{
    RAW_COMPARE(codec_read_legacy,
                "--- threadz 1 ---\n"
                "\n"
                "--- Thread 7eff063d9940 (name: main/25376) stack: ---\n"
                "  PC:  0x401000: wait(int)\n"
                "  0x401000: main\n"
                "  0x7f0000002100: __libc_start_main\n"
                "--- Thread 7eff04e97700 (name: a/b/25379) stack: ---\n"
                "  PC:  0x402000 0x403000\n"
                "      creator: 0x404000\n"
                "--- Thread 7eff04770700 (name: other/25382) stack: ---\n"
                "    [same as previous thread]\n"
                "--- Memory map: ---\n"
                "  bin=/usr/bin\n"
                "  00400000-00500000: $bin/server\n",
                "thread/count 1, 0 ns\n"
                "thread/count\n"
                "1: 1 3\n"
                "2: 4 5 6\n"
                "Locations\n"
                "1: 0x401000 M=1\n"
                "2: 0x400fff M=1\n"
                "3: 0x7f00000020ff M=2\n"
                "4: 0x402000 M=1\n"
                "5: 0x402fff M=1\n"
                "6: 0x403fff M=1\n"
                "Mappings\n"
                "1: 0x400000/0x500000/0x0 /usr/bin/server \n"
                "2: 0x0/0xffffffffffffffff/0x0  \n");
}

static void threads_need_an_end(void **state)
{
#define THREAD "--- Thread 7e (name: main/1) stack: ---\n  PC: 0x10\n"
    RAW_COMPARE(codec_read_legacy, THREAD "---- no stack trace for 5\n",
                "thread/count 1, 0 ns\nthread/count\n1: 1\nLocations\n1: 0x10 M=1\nMappings\n"
                "1: 0x0/0xffffffffffffffff/0x0  \n");
    RAW_REFUSED(codec_read_legacy, THREAD, "unrecognized");
    RAW_REFUSED(codec_read_legacy, "--- threadz 1 ---\n", "unrecognized");
    RAW_REFUSED(codec_read_legacy, THREAD "0x11112222333344445\n", "line 3");
    RAW_REFUSED(codec_read_legacy, "--- Thread 7e (name: main) stack: ---\n--- Memory map: ---\n",
                "unrecognized");
#undef THREAD
}

static void contention(void **state)
{
    RAW_COMPARE(codec_read_legacy,
                "--- contentionz 1 ---\n"
                "cycles/second = 2000000000\n"
                "sampling period = 100\n"
                "ms since reset = 16502830\n"
                "discarded samples = 0\n"
                "  4000       3 @ 0x401001 0x402001\n"
                "  57 @ 0x401001\n",
                "contentions/count 100, 16502830000000 ns\n"
                "contentions/count delay/nanoseconds\n"
                "300 200000: 1 2\n"
                "700 250: 1\n"
                "Locations\n"
                "1: 0x401000 M=1\n"
                "2: 0x402000 M=1\n"
                "Mappings\n"
                "1: 0x0/0xffffffffffffffff/0x0  \n");
    RAW_COMPARE(codec_read_legacy,
                "--- mutex:\n"
                "cycles/second=1000000000\n"
                "sampling period=1\n"
                "500 2 @ 0x401001 0x402001\n",
                "contentions/count 1, 0 ns\n"
                "contentions/count delay/nanoseconds\n"
                "2 500: 1 2\n"
                "Locations\n"
                "1: 0x401000 M=1\n"
                "2: 0x402000 M=1\n"
                "Mappings\n"
                "1: 0x0/0xffffffffffffffff/0x0  \n");
}

static void contention_attributes_are_known_ones(void **state)
{
    RAW_REFUSED(codec_read_legacy, "--- mutex:\ncycles/second=1x\n1 2 @ 0x1\n", "unrecognized");
    RAW_REFUSED(codec_read_legacy, "--- mutex:\nspeed=1\n1 2 @ 0x1\n", "unrecognized");
    RAW_REFUSED(codec_read_legacy, "--- mutex:\n1 @ 0x1\n", "unrecognized");
    RAW_REFUSED(codec_read_legacy, "--- mutex:\n1 2 @ 0x11112222333344445\n", "line 2");
    RAW_REFUSED(codec_read_legacy, "--- mutex:\n1 99999999999999999999 @ 0x1\n", "line 2");
    RAW_COMPARE(codec_read_legacy, "--- contention:\nsampling period=0x1_0\nx 3 4 @\n",
                "contentions/count 16, 0 ns\ncontentions/count delay/nanoseconds\n64 3:\n"
                "Locations\nMappings\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(go_counts),  cmocka_unit_test(go_counts_are_strict),
        cmocka_unit_test(threads),    cmocka_unit_test(threads_need_an_end),
        cmocka_unit_test(contention), cmocka_unit_test(contention_attributes_are_known_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
