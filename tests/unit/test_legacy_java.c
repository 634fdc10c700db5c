#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "raw.h"

static void heap(void **state)
{
    RAW_COMPARE(codec_read_legacy,
                "--- heapz 1 ---\n"
                "format = java\n"
                "resolution = bytes\n"
                "7048 1 @ 0x00000003 0x00000004 0x00000005\n"
                "4752 9 @ 0x00000003 0x00000006 0x00000077\n"
                "\n"
                "     0x00000003 sample.heap.Alloc (Heap.java:33)\n"
                "     0x00000004 com.foo.Bar.baz  (Bar.java:-1)\n"
                "  0x5 memcpy (/usr/lib/libc.so.6)\n"
                "  0x6 generated stub/JIT code\n"
                "0x9 unused (X.java:1)\n",
                "/ 0, 0 ns\n"
                "inuse_objects/count inuse_space/bytes\n"
                "74 527819: 1 2 3 | bytes=7048\n"
                "8941 4720968: 1 4 5 | bytes=528\n"
                "Locations\n"
                "1: 0x0 sample.heap.Alloc Heap.java:33:0\n"
                "2: 0x0 com.foo.Bar.baz  Bar.java:0:0\n"
                "3: 0x0 memcpy libc.so.6:0:0\n"
                "4: 0x0 STUB :0:0\n"
                "5: 0x0 M=1\n"
                "Mappings\n"
                "1: 0x0/0xffffffffffffffff/0x0  \n");
}

static void contention(void **state)
{
    RAW_COMPARE(codec_read_legacy,
                "--- contentionz 1 ---\n"
                "format = java\n"
                "resolution = microseconds\n"
                "sampling period = 100\n"
                "ms since reset = 6\n"
                "1 14 @ 0x3 0x4\n"
                "0x3 a.B.c (B.java:7)\n"
                "0x4 GC\n",
                "contentions/count 100, 6000000 ns\n"
                "contentions/count delay/microseconds\n"
                "1400 100: 1 2\n"
                "Locations\n"
                "1: 0x0 a.B.c B.java:7:0\n"
                "2: 0x0 GC :0:0\n"
                "Mappings\n");
}

static void broken_ones_are_refused(void **state)
{
#define HEAD "--- heapz 1 ---\nformat=java\nresolution=bytes\n"
    RAW_REFUSED(codec_read_legacy, HEAD "8 0 @ 0x1\n", "line 4: the second value");
    RAW_REFUSED(codec_read_legacy, HEAD "08 1 @ 0x1\n", "line 4");
    RAW_REFUSED(codec_read_legacy, HEAD "8 1 @ 0x11112222333344445\n", "line 4");
    RAW_REFUSED(codec_read_legacy, HEAD "8 1 @ 0x1\n0x11112222333344445 f\n", "line 5");
    RAW_REFUSED(codec_read_legacy, "--- heapz 1 ---\nformat=go\n", "unrecognized");
    RAW_REFUSED(codec_read_legacy, "--- heapz 1 ---\nsampling period=1\n", "unrecognized");
    RAW_REFUSED(codec_read_legacy, "--- contentionz 1 ---\nformat=java\nsampling period=x\n",
                "line 3");
    RAW_REFUSED(codec_read_legacy, "--- heapz 1 ---\nformat=java\n8 1 @ 0x1\n",
                "missing sample type");
    RAW_REFUSED(codec_read_legacy, "--- heapz 1 ---", "unrecognized");
#undef HEAD
}

// A function is known by its name alone; the first file seen for it stays.
static void functions_are_one_a_name(void **state)
{
    RAW_COMPARE(codec_read_legacy,
                "--- contentionz 1 ---\nformat=java\nresolution=us\n"
                "1 2 @ 0x1 0x2 0x3\n"
                "0x1 f (A.java:1)\n0x2 f (B.java:2)\n0x3 g ()\n0x3 g x (y (z:3)\n",
                "/ 0, 0 ns\ncontentions/count delay/us\n2 1: 1 2 3\nLocations\n"
                "1: 0x0 f A.java:1:0\n2: 0x0 f A.java:2:0\n3: 0x0 g x (y z:3:0\nMappings\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap),
        cmocka_unit_test(contention),
        cmocka_unit_test(broken_ones_are_refused),
        cmocka_unit_test(functions_are_one_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
