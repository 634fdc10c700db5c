#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "codec/detect.h"
#include "raw.h"

// As perf printed it: two software events at once, process and thread, the cpu.
static const char two_events[] =
    "# ========\n"
    "# captured on    : some day\n"
    "#\n"
    "spin  7969/7970  [001]  3002.414671:   10000000  cpu-clock: \n"
    "\t            1154 leaf+0x1b (/opt/demo/spin)\n"
    "\t            1175 middle+0x10 (/opt/demo/spin)\n"
    "\t            1175 middle+0x10 (/opt/demo/spin)\n"
    "\t            11ca main+0x23 (/opt/demo/spin)\n"
    "\t           2724a __libc_start_call_main+0x7a (/usr/lib/libc.so.6)\n"
    "\n"
    "spin  7969/7970  [001]  3002.414696:   20000000 task-clock: \n"
    "\t            1154 leaf+0x1b (/opt/demo/spin)\n"
    "\t            11ca main+0x23 (/opt/demo/spin)\n"
    "\n";

static void events_have_columns(void **state)
{
    RAW_COMPARE(codec_read_perf_script, two_events,
                "cpu-clock/nanoseconds 10000000, 25000 ns\n"
                "samples/count cpu-clock/nanoseconds task-clock/nanoseconds\n"
                "1 10000000 0: 1 2 2 3 4 | comm=spin, pid=7969, tid=7970\n"
                "1 0 20000000: 1 3 | comm=spin, pid=7969, tid=7970\n"
                "Locations\n"
                "1: 0x1154 M=1 leaf :0:0\n"
                "2: 0x1175 M=1 middle :0:0\n"
                "3: 0x11ca M=1 main :0:0\n"
                "4: 0x2724a M=2 __libc_start_call_main :0:0\n"
                "Mappings\n"
                "1: 0x0/0x0/0x0 /opt/demo/spin \n"
                "2: 0x0/0x0/0x0 /usr/lib/libc.so.6 \n");
}

// An inlined call belongs to the frame after it, if that is at the same address.
static void inlined_calls(void **state)
{
    RAW_COMPARE(codec_read_perf_script,
                "spin 30478  1130.025765:   10000000 cpu-clock: \n"
                "\t            114d inner+0x14 (inlined)\n"
                "\t            114d leaf+0x14 (/opt/demo/spin)\n"
                "\t           27304 __libc_start_main_impl+0x84 (inlined)\n"
                "\t            1070 _start+0x20 (/opt/demo/spin)\n",
                "cpu-clock/nanoseconds 10000000, 0 ns\n"
                "samples/count cpu-clock/nanoseconds\n"
                "1 10000000: 1 2 3 | comm=spin, tid=30478\n"
                "Locations\n"
                "1: 0x114d M=1 inner :0:0 < leaf :0:0\n"
                "2: 0x27304 __libc_start_main_impl :0:0\n"
                "3: 0x1070 M=1 _start :0:0\n"
                "Mappings\n"
                "1: 0x0/0x0/0x0 /opt/demo/spin \n");
}

static void source_lines(void **state)
{
    RAW_COMPARE(codec_read_perf_script,
                "spin 30125  1128.831591: cpu-clock: \n"
                "\t            114a leaf+0x11 (/opt/demo/spin)\n"
                "  spin.c:4\n"
                "\t           2724a __libc_start_call_main+0x7a (/usr/lib/libc.so.6)\n"
                "  libc.so.6[2724a]\n",
                "/ 0, 0 ns\nsamples/count\n"
                "1: 1 2 | comm=spin, tid=30125\n"
                "Locations\n"
                "1: 0x114a M=1 leaf spin.c:4:0\n"
                "2: 0x2724a M=2 __libc_start_call_main :0:0\n"
                "Mappings\n"
                "1: 0x0/0x0/0x0 /opt/demo/spin \n"
                "2: 0x0/0x0/0x0 /usr/lib/libc.so.6 \n");
}

// Without stacks, the frame stands in the heading's line.
static void one_line_a_sample(void **state)
{
    RAW_COMPARE(
        codec_read_perf_script,
        "            spin 7 [000] 1.000001:  50 cycles:ppp:   55a9dcf0014a leaf+0x11 (/x/spin)\n"
        "            spin 7 [000] 1.000002:  50 cycles:ppp:   55a9dcf0014d [unknown] ([unknown])\n",
        "cycles/count 50, 1000 ns\nsamples/count cycles/count\n"
        "1 50: 1 | comm=spin, tid=7\n1 50: 2 | comm=spin, tid=7\n"
        "Locations\n1: 0x55a9dcf0014a M=1 leaf :0:0\n2: 0x55a9dcf0014d\n"
        "Mappings\n1: 0x0/0x0/0x0 /x/spin \n");
}

static void heading(const char *line, const char *type, const char *sample)
{
    char text[200];
    snprintf(text, sizeof text, "%s\n\t1 f (x)\n", line);
    struct arena *arena = arena_new(0);
    struct err e;
    struct model_profile *p =
        codec_read_perf_script(arena, (const uint8_t *)text, strlen(text), &e);
    if (!p)
        fail_msg("%s: %s", line, e.message);
    char *got = raw(p);
    if (!strstr(got, type) || !strstr(got, sample))
        fail_msg("%s: expected %s and %s in %s", line, type, sample, got);
    assert_true(codec_looks_like_perf_script(str_from(text)));
    free(got);
    arena_free(arena);
}

static void headings_vary(void **state)
{
    heading("V8 WorkerThread 25607 4794564.109216: cycles:", "count\n1:",
            "| comm=V8 WorkerThread, tid=25607");
    heading("a 12 b 24636/25607 [000] 4.1: 1 cycles:ppp:", "cycles/count",
            "| comm=a 12 b, pid=24636, tid=25607");
    heading("x 5 [003] d..1. 4.1: 7 sched:sched_switch: prev_comm=y ==> next",
            "sched:sched_switch/", "1 7: 1 | comm=x, tid=5");
    heading("swapper 0 cycles:u: ", "count\n1:", "| comm=swapper, tid=0");
    heading(":-1 -1 [001] 4.1: 3 cpu-clock:", "cpu-clock/nanoseconds", "1 3: 1 | comm=:-1, tid=-1");
}

static void frames_vary(void **state)
{
    RAW_COMPARE(codec_read_perf_script,
                "x 1 1.0: 1 cycles:\n"
                "\t ffffffff810 do_it(int, char (*)(int))+0x1f ([kernel.kallsyms])\n"
                "\t 20 foo<(anonymous namespace)::x>() const (/tmp/a b (deleted))\n"
                "\t 30 Lcom/foo;::bar (/tmp/perf-1.map)\n"
                "\t 40 (/x)\n"
                "\t 50\n",
                "cycles/count 1, 0 ns\nsamples/count cycles/count\n"
                "1 1: 1 2 3 4 5 | comm=x, tid=1\nLocations\n"
                "1: 0xffffffff810 M=1 do_it(int, char (*)(int)) :0:0\n"
                "2: 0x20 M=2 foo<(anonymous namespace)::x>() const :0:0\n"
                "3: 0x30 M=3 Lcom/foo;::bar :0:0\n"
                "4: 0x40 M=4\n5: 0x50\nMappings\n"
                "1: 0x0/0x0/0x0 [kernel.kallsyms] \n2: 0x0/0x0/0x0 /tmp/a b (deleted) \n"
                "3: 0x0/0x0/0x0 /tmp/perf-1.map \n4: 0x0/0x0/0x0 /x \n");
}

static void nonsense_is_refused(void **state)
{
    RAW_REFUSED(codec_read_perf_script, "hello world\n", "line 1: expected");
    RAW_REFUSED(codec_read_perf_script, "x 1 1.0: 1 cycles:\n\t1 f (x)\n\tzz\n",
                "line 3: expected");
    struct out out;
    out_init_memory(&out, 1 << 20);
    for (int i = 0; i < 70; i++)
        out_printf(&out, "x 1 1.0: 1 event%d-x:\n\n", i);
    raw_refused(codec_read_perf_script, out.p, out.n, "more than 64 different events");
    out_fini(&out);
}

static void detection(void **state)
{
    assert_true(codec_looks_like_perf_script((struct str){two_events, sizeof two_events - 1}));
    assert_false(codec_looks_like_perf_script(STR("")));
    assert_false(codec_looks_like_perf_script(STR("a;b 1\na;c 2\n")));
    assert_false(codec_looks_like_perf_script(STR("chapter 1 begins:\nHere it begins.\n")));
    assert_false(codec_looks_like_perf_script(STR("heap profile: 1: 2 [3: 4] @ heap\n")));
    assert_false(codec_looks_like_perf_script(STR("x profile: total 1\n1 @ 0x1\n")));
}

static void little_memory(void **state)
{
    raw_with_little_memory(codec_read_perf_script, two_events, sizeof two_events - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_have_columns), cmocka_unit_test(inlined_calls),
        cmocka_unit_test(source_lines),        cmocka_unit_test(one_line_a_sample),
        cmocka_unit_test(headings_vary),       cmocka_unit_test(frames_vary),
        cmocka_unit_test(nonsense_is_refused), cmocka_unit_test(detection),
        cmocka_unit_test(little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
