#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "codec/codec.h"
#include "model/stream.h"
#include "model/transform.h"
#include "report/graph.h"
#include "stacks.h"
#include "arena_fixture.h"

enum { TASKS = 1000 };

struct tally {
    _Atomic int runs[TASKS];
    _Atomic int workers[PARALLEL_MOST];
    size_t stop_at;
};

static bool count_task(void *context, struct parallel_worker *worker, size_t task)
{
    struct tally *t = context;
    assert_true(worker->index < PARALLEL_MOST);
    t->workers[worker->index]++;
    t->runs[task]++;
    *(size_t *)arena_alloc(worker->arena, sizeof(size_t)) = task;
    return task != t->stop_at;
}

static void every_task_runs_once(void **state)
{
    for (unsigned n = 1; n <= 5; n += 2) {
        struct tally t = {.stop_at = SIZE_MAX};
        parallel_run(arena, n, TASKS, count_task, &t);
        for (size_t i = 0; i < TASKS; i++)
            assert_int_equal(t.runs[i], 1);
        for (size_t i = n; i < PARALLEL_MOST; i++)
            assert_int_equal(t.workers[i], 0);
    }
    parallel_run(arena, 3, 0, count_task, NULL);
}

static void tasks_before_a_failure_are_finished(void **state)
{
    for (unsigned n = 1; n <= 3; n += 2) {
        struct tally t = {.stop_at = 300};
        parallel_run(arena, n, TASKS, count_task, &t);
        for (size_t i = 0; i <= 300; i++)
            assert_int_equal(t.runs[i], 1);
        assert_int_equal(t.runs[TASKS - 1], 0);
    }
}

static bool nest_tasks(void *context, struct parallel_worker *worker, size_t task)
{
    struct tally t = {.stop_at = SIZE_MAX};
    parallel_run(worker->arena, 3, 10, count_task, &t);
    _Atomic int *sum = context;
    *sum += t.workers[0];
    return true;
}

static void tasks_within_tasks_run_on_one_thread(void **state)
{
    _Atomic int sum = 0;
    parallel_run(arena, 3, 20, nest_tasks, &sum);
    assert_int_equal(sum, 200);
}

static bool fail_in_task(void *context, struct parallel_worker *worker, size_t task)
{
    if (task == 7)
        arena_fail(worker->arena, "task %zu failed", task);
    return true;
}

static void expect_failure(unsigned n_workers)
{
    struct arena_trap trap;
    struct err e = {.message = ""};
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, &e);
        assert_string_equal(e.message, "task 7 failed");
        return;
    }
    parallel_run(arena, n_workers, 20, fail_in_task, NULL);
    fail();
}

static void failures_of_workers_reach_the_caller(void **state)
{
    expect_failure(1);
    expect_failure(3);
}

static void numbers_of_threads(void **state)
{
    assert_int_equal(parallel_threads(), 1);
    assert_false(parallel_is_explicit());
    parallel_allow(0);
    assert_int_equal(parallel_threads(), parallel_processors());
    assert_false(parallel_is_explicit());
    parallel_allow(7);
    assert_int_equal(parallel_threads(), 7);
    assert_true(parallel_is_explicit());
    parallel_allow(1);
}

static void the_affinity_mask_counts(void **state)
{
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_true(parallel_processors() <= (unsigned)CPU_COUNT(&all));
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(parallel_processors(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

// --- profiles ---

static struct str encode_samples(uint32_t step, bool has_negatives)
{
    struct model_builder *b = stacks_new(arena);
    uint32_t frames[300], stack[40];
    for (uint32_t i = 0; i < 300; i++)
        frames[i] = stacks_frame(
            b, str_from(arena_printf(arena, i % 3 ? "f%u@a.c#1" : "f%u@a.c#1+g%u@b.c#2", i, i / 9)),
            MODEL_NONE, i + 1);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t depth = 1 + i % 40;
        for (uint32_t k = 0; k < depth; k++)
            stack[k] = frames[(i * k * step + k) % 300];
        if (i % 4)
            model_build_number_label(b, STR("size"), i % 70, i % 3 ? STR("bytes") : STR("kb"));
        model_build_label(b, STR("job"), str_from(arena_printf(arena, "j%u", i % 90)));
        model_build_sample(b, stack, depth,
                           (int64_t[]){i % 7 || !has_negatives ? (int64_t)i + 1 : -(int64_t)i});
    }
    return stacks_bytes(b->p, arena);
}

static struct str make_encoded(void)
{
    return encode_samples(1, true);
}

static struct str make_joinable(uint32_t step)
{
    return encode_samples(step, false);
}

static char *report_on(const struct model_profile *p, enum report_format format)
{
    struct err e = {.message = ""};
    struct report r = {.p = p, .arena = arena, .o = {.format = format, .ratio = 1}};
    r.o.node_fraction = 0.005;
    r.o.edge_fraction = 0.001;
    r.o.unit = r.o.output_unit = STR("count");
    r.o.label_units = model_label_units(p, arena, NULL, NULL);
    r.total = report_total(p, 0, false);
    struct out out;
    out_init_arena(&out, arena);
    if (report_write(&r, &out, &e))
        fail_msg("%s", e.message);
    struct str text = out_result(&out);
    return arena_copy(arena, text.p, text.n);
}

static void reports_do_not_depend_on_threads(void **state)
{
    struct str bytes = make_encoded();
    struct err e = {.message = ""};
    static const enum report_format formats[] = {REPORT_TEXT,     REPORT_TREE,   REPORT_TAGS,
                                                 REPORT_TOPPROTO, REPORT_TRACES, REPORT_RAW};
    enum { N = sizeof formats / sizeof *formats };
    const struct model_profile *serial =
        codec_read_pprof(arena, (const uint8_t *)bytes.p, bytes.n, &e);
    char *expected[N];
    for (size_t i = 0; i < N; i++)
        expected[i] = report_on(serial, formats[i]);
    for (unsigned threads = 1; threads <= 5; threads += 2) {
        for (int keeps_encoded = 0; keeps_encoded < 2; keeps_encoded++) {
            struct codec_parallel parallel = {.threads = threads, .keeps_encoded = keeps_encoded};
            parallel_allow(threads);
            const struct model_profile *p = codec_read_parallel(arena, (const uint8_t *)bytes.p,
                                                                bytes.n, NULL, &parallel, NULL, &e);
            assert_non_null(p);
            assert_int_equal(p->stream != NULL, keeps_encoded);
            for (size_t i = 0; i < N; i++)
                assert_string_equal(report_on(p, formats[i]), expected[i]);
            assert_string_equal(stacks_text(model_decode_samples(p, arena), arena),
                                stacks_text(serial, arena));
            parallel_allow(1);
        }
    }
}

struct slow_output {
    unsigned stops_at;
    struct out out;
};

static void take_slow_output(void *context, struct str text)
{
    struct slow_output *slow = context;
    if (slow->out.n > slow->stops_at * 8)
        arena_fail(arena, "stopped");
    out_str(&slow->out, text);
}

static void write_slowly(void *context, struct parallel_worker *worker,
                         const struct model_profile *window, size_t first, struct out *out)
{
    const struct slow_output *slow = context;
    if (first * 7919 % 11 == 0)
        usleep((useconds_t)(first % 400));
    for (size_t i = 0; i < window->n_samples; i++)
        out_printf(out, "%zu ", first + i);
    if (first + window->n_samples > slow->stops_at)
        arena_fail(worker->arena, "stopped");
}

// Some windows take long, so that others wait with all their buffers.
static void output_has_the_order_of_the_samples(void **state)
{
    struct str bytes = make_encoded();
    struct err e = {.message = ""};
    struct codec_parallel parallel = {.threads = 60, .keeps_encoded = true};
    struct out expected;
    parallel_allow(60);
    const struct model_profile *p =
        codec_read_parallel(arena, (const uint8_t *)bytes.p, bytes.n, NULL, &parallel, NULL, &e);
    out_init_arena(&expected, arena);
    for (size_t i = 0; i < p->n_samples; i++)
        out_printf(&expected, "%zu ", i);
    for (int run = 0; run < 60; run++) {
        struct slow_output slow = {.stops_at = run % 4 ? 1u << 20 : 40u * (unsigned)run};
        struct arena_trap trap;
        out_init_arena(&slow.out, arena);
        parallel_allow(2 + (unsigned)run % 6);
        if (ARENA_TRY(arena, trap)) {
            arena_caught(arena, &e);
            assert_string_equal(e.message, "stopped");
            assert_int_equal(run % 4, 0);
            continue;
        }
        model_each_in_order(p, arena, 0, write_slowly, take_slow_output, &slow);
        arena_try_end(arena);
        assert_int_not_equal(run % 4, 0);
        assert_int_equal(slow.out.n, expected.n);
        assert_memory_equal(slow.out.p, expected.p, expected.n);
    }
    parallel_allow(1);
}

static void read_until_broken(const struct model_stream *stream, size_t index, unsigned what,
                              struct model_window *window)
{
    if (index == 3) {
        usleep(50000);
        arena_fail(window->arena, "broken");
    }
}

static void write_nothing(void *context, struct parallel_worker *worker,
                          const struct model_profile *window, size_t first, struct out *out)
{
}

static void take_nothing(void *context, struct str text)
{
}

static void write_broken(unsigned threads)
{
    struct model_stream stream = {.n_windows = 100, .read = read_until_broken};
    struct model_profile p = {.stream = &stream};
    struct arena_trap trap;
    struct err e = {.message = ""};
    parallel_allow(threads);
    if (!ARENA_TRY(arena, trap)) {
        model_each_in_order(&p, arena, 0, write_nothing, take_nothing, NULL);
        fail();
    }
    arena_caught(arena, &e);
    assert_string_equal(e.message, "broken");
    parallel_allow(1);
}

// The other workers have used all their buffers when one fails to decode a window.
static void output_ends_if_a_window_cannot_be_read(void **state)
{
    for (unsigned threads = 1; threads <= 4; threads++)
        write_broken(threads);
}

static const struct model_profile *filter_stacks(const struct model_profile *p, int which)
{
    bool matched[4];
    struct err e = {.message = ""};
    struct model_regex *some = model_regex_new(arena, "some", STR("f1?[0-9]$"), &e),
                       *other = model_regex_new(arena, "other", STR("[47]$"), &e);
    if (which == 0)
        return model_filter_frames(p, some, other, NULL, NULL, matched, arena);
    if (which == 1)
        return model_filter_frames(p, NULL, NULL, other, NULL, matched, arena);
    if (which == 2)
        return model_show_from(model_prune_from(p, some, arena), other, matched, arena);
    struct model_profile *to = model_profile_derive(p, arena);
    to->drop_frames = model_intern(p->strings, STR("f.*[0-4]|g.*"));
    return model_drop_uninteresting(to, arena);
}

static void filters_leave_samples_encoded(void **state)
{
    struct str bytes = make_encoded();
    struct err e = {.message = ""};
    struct codec_parallel parallel = {.threads = 3, .keeps_encoded = true};
    parallel_allow(3);
    for (int which = 0; which < 4; which++) {
        const struct model_profile *serial =
            filter_stacks(codec_read_pprof(arena, (const uint8_t *)bytes.p, bytes.n, &e), which);
        const struct model_profile *p =
            filter_stacks(codec_read_parallel(arena, (const uint8_t *)bytes.p, bytes.n, NULL,
                                              &parallel, NULL, &e),
                          which);
        assert_non_null(p->stream);
        assert_in_range(serial->n_samples, 1, 3000);
        assert_string_equal(stacks_text(model_decode_samples(p, arena), arena),
                            stacks_text(serial, arena));
    }
    parallel_allow(1);
}

static void joined_profiles_have_the_sums_of_merged_ones(void **state)
{
    struct str bytes = make_joinable(1), others = make_joinable(5);
    const struct str files[] = {bytes, others, bytes};
    struct err e = {.message = ""};
    struct codec_parallel parallel = {.threads = 3, .keeps_encoded = true};
    static const enum report_format formats[] = {REPORT_TEXT, REPORT_TREE, REPORT_TAGS};
    struct model_profile *encoded[3], *decoded[3];
    for (unsigned threads = 1; threads <= 7; threads += 3) {
        parallel_allow(threads);
        for (int i = 0; i < 3; i++) {
            const uint8_t *p = (const uint8_t *)files[i].p;
            decoded[i] = codec_read_pprof(arena, p, files[i].n, &e);
            encoded[i] = codec_read_parallel(arena, p, files[i].n, NULL, &parallel, NULL, &e);
        }
        const struct model_profile *merged = model_merge(decoded, 3, arena, &e);
        const struct model_profile *joined = model_join_encoded(encoded, 3, arena);
        assert_non_null(joined->stream);
        assert_int_equal(joined->n_samples, 9000);
        assert_true(merged->n_samples <= 6000);
        for (size_t i = 0; i < 3; i++)
            assert_string_equal(report_on(joined, formats[i]), report_on(merged, formats[i]));
        assert_string_equal(stacks_text(model_decode_samples(joined, arena), arena),
                            stacks_text(merged, arena));
    }
    // Samples that may cancel out must be merged.
    struct str negative = make_encoded();
    encoded[1] = codec_read_parallel(arena, (const uint8_t *)negative.p, negative.n, NULL,
                                     &parallel, NULL, &e);
    assert_null(model_join_encoded(encoded, 3, arena));
    parallel_allow(1);
}

static void decode_changed(const struct model_profile *p)
{
    struct arena_trap trap;
    struct err e = {.message = ""};
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, &e);
        assert_non_null(strstr(e.message, "changed while it was read"));
        return;
    }
    model_decode_samples(p, arena);
    arena_try_end(arena);
}

// A file that changes between the passes.
static void changed_data_is_detected(void **state)
{
    struct str bytes = make_encoded();
    struct err e = {.message = ""};
    struct codec_parallel parallel = {.threads = 3, .keeps_encoded = true};
    parallel_allow(3);
    for (size_t at = 0; at < bytes.n; at += 4001) {
        uint8_t *copy = (uint8_t *)arena_copy(arena, bytes.p, bytes.n);
        const struct model_profile *p =
            codec_read_parallel(arena, copy, bytes.n, NULL, &parallel, NULL, &e);
        assert_non_null(p);
        copy[at] ^= 0xff;
        decode_changed(p);
    }
    parallel_allow(1);
}

static void check_locations(void *context, struct parallel_worker *worker,
                            const struct model_profile *window, size_t first)
{
    for (size_t i = 0; i < window->n_samples; i++)
        for (uint32_t k = 0; k < window->stack_len[i]; k++)
            if (window->stacks[i][k] >= window->n_locations)
                *(bool *)context = true;
}

// Changed samples may refer to locations that were unused when the tables were merged.
static void changed_data_of_joined_profiles_is_detected(void **state)
{
    // Samples use the first half of the locations.
    struct model_builder *b = stacks_new(arena);
    struct err e = {.message = ""};
    uint32_t frames[100];
    for (uint32_t i = 0; i < 100; i++)
        frames[i] = stacks_frame(b, str_from(arena_printf(arena, "f%u@a.c#1", i)), MODEL_NONE, i);
    for (uint32_t i = 0; i < 3000; i++)
        model_build_sample(b, &frames[i % 50], 1, (int64_t[]){1});
    struct str bytes = stacks_bytes(b->p, arena);
    struct codec_parallel parallel = {.threads = 3, .keeps_encoded = true};
    parallel_allow(3);
    for (size_t at = 20; at < 2000; at += 1) {
        struct model_profile *both[2];
        uint8_t *copy = (uint8_t *)arena_copy(arena, bytes.p, bytes.n);
        for (int i = 0; i < 2; i++)
            both[i] = codec_read_parallel(arena, copy, bytes.n, NULL, &parallel, NULL, &e);
        const struct model_profile *joined = model_join_encoded(both, 2, arena);
        bool is_outside = false;
        struct arena_trap trap;
        copy[at] += 50;
        if (ARENA_TRY(arena, trap)) {
            arena_caught(arena, &e);
            assert_non_null(strstr(e.message, "changed while it was read"));
            continue;
        }
        model_each_window(joined, arena, 0, check_locations, &is_outside);
        arena_try_end(arena);
        assert_false(is_outside);
    }
    parallel_allow(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(tasks_before_a_failure_are_finished),
        cmocka_unit_test(tasks_within_tasks_run_on_one_thread),
        cmocka_unit_test(failures_of_workers_reach_the_caller),
        cmocka_unit_test(numbers_of_threads),
        cmocka_unit_test(the_affinity_mask_counts),
        cmocka_unit_test(reports_do_not_depend_on_threads),
        cmocka_unit_test(output_has_the_order_of_the_samples),
        cmocka_unit_test(output_ends_if_a_window_cannot_be_read),
        cmocka_unit_test(filters_leave_samples_encoded),
        cmocka_unit_test(joined_profiles_have_the_sums_of_merged_ones),
        cmocka_unit_test(changed_data_is_detected),
        cmocka_unit_test(changed_data_of_joined_profiles_is_detected),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
