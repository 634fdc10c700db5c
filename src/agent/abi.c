// The public C functions: check the arguments and call the modules.
#include "agent/abi.h"

#include <kiln/heap.h>

#include "agent/agent.h"
#include "agent/endpoints/endpoints.h"
#include "agent/gzip.h"
#include "agent/heap/heap_source.h"
#include "agent/heap/heap_sampler.h"
#include "agent/heap/heap_windows.h"
#include "agent/heap/heap_jemalloc_code.h"
#include "agent/collector/callbacks.h"
#include "agent/push/push.h"
#include "codec/codec.h"
#include "process/own_threads.h"
#include "process/process.h"
#include "process/sandbox.h"
#include "process/write_signals.h"

enum { CONVERT_MAX = 1 << 30 };

// Checks that threads may be started, and begins a change. On success, call own_threads_end_change
// afterwards.
static int begin_thread_start(struct err *e)
{
    if (process_check_start(e))
        return -1;
    return own_threads_begin_change()
               ? 0
               : err_set(e, "profiling is disabled: a seccomp filter for all threads is being "
                            "installed");
}

// If a filter for all threads is installed, our threads are parked for good: nothing can be joined,
// and the caller may make none of our system calls.
static bool begin_thread_stop(void)
{
    return sandbox_scope() != SANDBOX_ALL_THREADS && own_threads_begin_change();
}

EXPORT int kiln_start(const struct kiln_options *options, struct kiln_error *error)
{
    struct kiln_options o = ABI_SIZED_COPY(kiln_options, options);
    struct agent_options agent = {.hz = o.frequency,
                                  .perf = o.clock == KILN_CLOCK_PERF,
                                  .depth = o.depth,
                                  .memory = o.memory,
                                  .symbol_memory = o.symbol_memory,
                                  .threads = o.threads};
    struct err e = {""};
    ABI_SCOPE;
    if (o.clock > KILN_CLOCK_PERF) {
        err_set(&e, "the clock must be timer or perf (KILN_CLOCK_TIMER, KILN_CLOCK_PERF)");
        return abi_set_error(error, &e);
    }
    if (begin_thread_start(&e))
        return abi_set_error(error, &e);
    int result = collector_start(&agent, &e);
    own_threads_end_change();
    return result ? abi_set_error(error, &e) : 0;
}

EXPORT void kiln_stop(void)
{
    ABI_SCOPE;
    if (!begin_thread_stop())
        return;
    collector_stop();
    own_threads_end_change();
}

// --- windows ---

EXPORT int kiln_window_begin_with(const struct kiln_window_options *options,
                                  struct kiln_error *error)
{
    struct kiln_window_options o = ABI_SIZED_COPY(kiln_window_options, options);
    struct agent_window_options agent = {.hz = o.frequency, .force = o.flags & KILN_FORCE};
    struct err e = {""};
    ABI_SCOPE;
    int window = agent_window_open(&agent, &e);
    if (window < 0)
        abi_set_error(error, &e);
    return window == AGENT_CONFLICT ? KILN_CONFLICT : window;
}

EXPORT int kiln_window_begin(struct kiln_error *error)
{
    return kiln_window_begin_with(NULL, error);
}

static int write_profile_bytes(struct model_profile *p, struct arena *arena, int fd,
                               const struct agent_output *output, struct err *e)
{
    struct out out;
    struct process_write_signals held = process_hold_write_signals();
    out_init_fd(&out, fd);
    int result = agent_write(p, arena, output, &out, e) || out_finish(&out, e) ? -1 : 0;
    out_fini(&out);
    process_release_write_signals(held);
    return result;
}

// Writes a window's profile, or that of the last `seconds` if seconds is not 0. stay keeps the
// window open.
static int write_window_profile(int window, uint32_t seconds, bool stay, int fd,
                                const struct agent_output *output, struct kiln_error *error)
{
    struct err e = {""};
    ABI_SCOPE;
    struct arena *arena = arena_new(0);
    if (!arena) {
        if (!stay)
            agent_window_cancel(window);
        err_set(&e, "no memory for a profile");
        return abi_set_error(error, &e);
    }
    struct model_profile *p = seconds ? agent_last(seconds, arena, &e)
                              : stay  ? agent_window_peek(window, arena, &e)
                                      : agent_window_close(window, arena, &e);
    int result = p ? write_profile_bytes(p, arena, fd, output, &e) : -1;
    arena_free(arena);
    return result ? abi_set_error(error, &e) : 0;
}

static int parse_output_options(const struct kiln_output *output, struct agent_output *agent,
                                struct kiln_error *error)
{
    static const enum agent_format formats[] = {
        [KILN_PPROF] = AGENT_PPROF,   [KILN_PPROF_PLAIN] = AGENT_PPROF_PLAIN,
        [KILN_FOLDED] = AGENT_FOLDED, [KILN_SVG] = AGENT_SVG,
        [KILN_HTML] = AGENT_HTML,     [KILN_JSON] = AGENT_JSON,
    };
    struct kiln_output o = ABI_SIZED_COPY(kiln_output, output);
    struct err e;
    if (o.format >= sizeof formats / sizeof *formats) {
        err_set(&e, "invalid output format %u; expected 0 (KILN_PPROF) to %zu", o.format,
                sizeof formats / sizeof *formats - 1);
        return abi_set_error(error, &e);
    }
    *agent = (struct agent_output){.format = formats[o.format],
                                   .addresses = o.flags & KILN_ADDRESSES,
                                   .no_labels = o.flags & KILN_NO_LABELS,
                                   .width = o.width,
                                   .title = o.title};
    return 0;
}

EXPORT int kiln_window_write_as(int window, int fd, const struct kiln_output *output,
                                struct kiln_error *error)
{
    struct agent_output agent;
    bool stay = ABI_SIZED_COPY(kiln_output, output).flags & KILN_STAY;
    if (parse_output_options(output, &agent, error)) {
        if (!stay)
            agent_window_cancel(window);
        return -1;
    }
    return write_window_profile(window, 0, stay, fd, &agent, error);
}

EXPORT int kiln_window_write(int window, int fd, struct kiln_error *error)
{
    struct agent_output output = {.format = AGENT_PPROF, .addresses = true, .made_code = true};
    return write_window_profile(window, 0, false, fd, &output, error);
}

EXPORT int kiln_last_write(uint32_t seconds, int fd, const struct kiln_output *output,
                           struct kiln_error *error)
{
    struct agent_output agent;
    if (parse_output_options(output, &agent, error))
        return -1;
    // 0 seconds must be rejected but would select a window here, so pass a value out of range.
    return write_window_profile(-1, seconds ? seconds : UINT32_MAX, false, fd, &agent, error);
}

EXPORT void kiln_window_cancel(int window)
{
    agent_window_cancel(window);
}

static int convert_profile(const void *profile, size_t n, int fd, const struct agent_output *output,
                           struct arena *arena, struct err *e)
{
    struct out raw;
    out_init_memory(&raw, CONVERT_MAX);
    struct model_profile *p = NULL;
    if (!gzip_is(profile, n))
        p = codec_read_pprof(arena, profile, n, e);
    else if (gzip_read(&raw, profile, n, CONVERT_MAX, e) == 0 && out_finish(&raw, e) == 0)
        p = codec_read_pprof(arena, (const uint8_t *)raw.p, raw.n, e);
    int result = p ? write_profile_bytes(p, arena, fd, output, e) : -1;
    out_fini(&raw);
    return result;
}

EXPORT int kiln_convert(const void *profile, size_t n, int fd, const struct kiln_output *output,
                        struct kiln_error *error)
{
    struct agent_output agent;
    struct err e = {"no memory for a profile"};
    ABI_SCOPE;
    if (parse_output_options(output, &agent, error))
        return -1;
    agent.as_is = true;
    struct arena *arena = arena_new(0);
    int result = arena ? convert_profile(profile, n, fd, &agent, arena, &e) : -1;
    arena_free(arena);
    return result ? abi_set_error(error, &e) : 0;
}

// --- heap ---

EXPORT int kiln_heap_activated(void)
{
    const struct heap_source *source = heap_source();
    return source && source->active();
}

EXPORT int kiln_heap_activate(struct kiln_error *error)
{
    const struct heap_source *source = heap_source();
    struct err e = {""};
    ABI_SCOPE;
    if (!source)
        err_set(&e, "no allocator hook is active; preload or link libkiln_malloc.so, use an "
                    "allocator with hooks, or start jemalloc with prof:true");
    return source && source->activate(&e) == 0 ? 0 : abi_set_error(error, &e);
}

EXPORT int kiln_heap_deactivate(struct kiln_error *error)
{
    const struct heap_source *source = heap_source();
    struct err e = {""};
    ABI_SCOPE;
    return source && source->active() && source->deactivate(&e) ? abi_set_error(error, &e) : 0;
}

EXPORT void kiln_heap_interposed(void)
{
    heap_sampler_hooked();
}

EXPORT int kiln_heap_start(const struct kiln_heap_options *options, struct kiln_error *error)
{
    struct kiln_heap_options o = ABI_SIZED_COPY(kiln_heap_options, options);
    struct capture_heap_options capture = {
        .interval = o.interval, .depth = o.depth, .memory = o.memory, .seed = o.seed};
    struct err e = {""};
    ABI_SCOPE;
    return process_check_start(&e) || heap_sampler_start(&capture, &e) ? abi_set_error(error, &e)
                                                                       : 0;
}

EXPORT void kiln_heap_stop(void)
{
    heap_sampler.deactivate(NULL);
}

EXPORT int kiln_heap_active(void)
{
    return heap_sampler.active();
}

EXPORT int kiln_heap_set_interval(uint64_t bytes, struct kiln_error *error)
{
    struct err e = {""};
    return heap_sampler.set_interval(bytes, &e) ? abi_set_error(error, &e) : 0;
}

// Writes everything, or the difference of a window.
static int write_heap_profile(const int *window, int fd, const struct kiln_output *output,
                              struct kiln_error *error)
{
    struct agent_output agent;
    struct err e = {""};
    ABI_SCOPE;
    struct arena *arena = arena_new(0);
    int result = parse_output_options(output, &agent, error);
    if (!arena || result) {
        if (window)
            heap_window_cancel(*window);
        arena_free(arena);
        err_set(&e, "no memory for a profile");
        return result ? -1 : abi_set_error(error, &e);
    }
    struct model_profile *p =
        window ? heap_window_close(*window, arena, &e) : heap_profile(arena, &e);
    result = p ? write_profile_bytes(p, arena, fd, &agent, &e) : -1;
    arena_free(arena);
    return result ? abi_set_error(error, &e) : 0;
}

EXPORT int kiln_heap_write(int fd, const struct kiln_output *output, struct kiln_error *error)
{
    return write_heap_profile(NULL, fd, output, error);
}

EXPORT int kiln_heap_window_begin(struct kiln_error *error)
{
    struct err e = {""};
    ABI_SCOPE;
    int window = heap_window_open(&e);
    return window < 0 ? abi_set_error(error, &e) : window;
}

EXPORT int kiln_heap_window_write(int window, int fd, const struct kiln_output *output,
                                  struct kiln_error *error)
{
    return write_heap_profile(&window, fd, output, error);
}

EXPORT void kiln_heap_window_cancel(int window)
{
    heap_window_cancel(window);
}

// --- labels ---

// NULL counts as an empty text, because it may come from getenv.
static struct str label_text(const char *text)
{
    return str_from(text ? text : "");
}

EXPORT kiln_labels kiln_labels_with(kiln_labels base, const char *key, const char *value)
{
    return agent_label_add(base, label_text(key), label_text(value));
}

EXPORT kiln_labels kiln_labels_without(kiln_labels base, const char *key)
{
    return agent_label_remove(base, label_text(key));
}

EXPORT void kiln_labels_hold(kiln_labels set)
{
    agent_label_hold(set);
}

EXPORT void kiln_labels_release(kiln_labels set)
{
    agent_label_release(set);
}

EXPORT kiln_labels kiln_labels_enter(kiln_labels set)
{
    kiln_labels had = capture_label();
    capture_set_label(set);
    return had;
}

EXPORT kiln_labels kiln_labels_current(void)
{
    return capture_label();
}

EXPORT kiln_labels kiln_labels_push(const char *key, const char *value)
{
    return kiln_labels_enter(kiln_labels_with(capture_label(), key, value));
}

EXPORT void kiln_labels_pop(kiln_labels had)
{
    agent_label_release(kiln_labels_enter(had));
}

static bool ids_are_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; p && i < n; i++)
        if (p[i])
            return false;
    return true;
}

EXPORT void kiln_set_trace(const unsigned char *trace_id, const unsigned char *span_id)
{
    struct capture_ids ids = {{0, 0}, 0};
    if (trace_id)
        memcpy(ids.trace, trace_id, sizeof ids.trace);
    if (span_id)
        memcpy(&ids.span, span_id, sizeof ids.span);
    capture_set_ids(ids_are_zero((const unsigned char *)&ids, sizeof ids) ? NULL : &ids);
}

EXPORT void kiln_context_get(struct kiln_context *context)
{
    struct capture_ids ids;
    *context = (struct kiln_context){.labels = capture_label()};
    if (!capture_get_ids(&ids))
        return;
    context->has_trace = 1;
    memcpy(context->trace_id, ids.trace, sizeof context->trace_id);
    memcpy(context->span_id, &ids.span, sizeof context->span_id);
}

EXPORT void kiln_context_enter(const struct kiln_context *context, struct kiln_context *had)
{
    struct kiln_context enter = *context;
    if (had)
        kiln_context_get(had);
    capture_set_label(enter.labels);
    if (enter.has_trace)
        kiln_set_trace(enter.trace_id, enter.span_id);
    else
        capture_set_ids(NULL);
}

// --- hooks ---

EXPORT void kiln_set_frame_hook(kiln_frame_hook hook, void *context)
{
    callbacks_set_frame(hook, context);
}

EXPORT void kiln_set_thread_hook(kiln_thread_hook hook, void *context)
{
    callbacks_set_thread(hook, context);
}

// --- jemalloc ---

EXPORT void kiln_set_jemalloc(kiln_mallctl mallctl)
{
    jemalloc_set_control(mallctl);
}

// --- statistics ---

EXPORT void kiln_get_statistics(struct kiln_statistics *statistics)
{
    struct agent_counts c;
    struct agent_settings settings;
    agent_get_counts(&c);
    agent_get_settings(&settings);
    struct kiln_statistics s = {
        .size = statistics->size,
        .ticks = c.capture.ticks,
        .samples = c.capture.samples,
        .ring_full = c.capture.ring_full,
        .not_ready = c.capture.no_snapshot,
        .blocked = c.capture.blocked,
        .unticked = c.capture.unticked,
        .unsampled = c.capture.unsampled,
        .out_of_memory = c.dropped,
        .threads = c.capture.threads,
        .stacks = c.stacks,
        .memory = c.memory,
        .filtered = c.filtered,
        .label_sets = c.labels.sets,
        .label_memory = c.labels.memory,
        .labels_dropped = c.labels.dropped,
        .frequency = settings.running ? settings.hz : 0,
        .windows = settings.windows,
        .name_memory = c.name_memory,
    };
    for (int i = UNWIND_END_TRUNCATED; i < UNWIND_END_COUNT; i++)
        s.truncated += c.capture.ended[i];
    memcpy(statistics, &s, s.size < sizeof s ? s.size : sizeof s);
}

EXPORT int kiln_serve(const struct kiln_serve_options *options, struct kiln_error *error)
{
    struct kiln_serve_options o = {0};
    if (options)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    struct err e = {""};
    ABI_SCOPE;
    if (begin_thread_start(&e))
        return abi_set_error(error, &e);
    int result = endpoints_serve(o.address ? o.address : "127.0.0.1:6060", o.token, &e);
    own_threads_end_change();
    return result ? abi_set_error(error, &e) : 0;
}

EXPORT void kiln_serve_stop(void)
{
    if (!begin_thread_stop())
        return;
    endpoints_stop();
    own_threads_end_change();
}

EXPORT int kiln_serve_address(char *text, size_t n)
{
    return endpoints_address(text, n) ? 0 : -1;
}

// --- push ---

EXPORT int kiln_push_start(const struct kiln_push_options *options, struct kiln_error *error)
{
    struct kiln_push_options o = ABI_SIZED_COPY(kiln_push_options, options);
    struct err e = {""};
    ABI_SCOPE;
    if (begin_thread_start(&e))
        return abi_set_error(error, &e);
    int result = push_start(&o, &e);
    own_threads_end_change();
    return result ? abi_set_error(error, &e) : 0;
}

EXPORT void kiln_push_stop(void)
{
    ABI_SCOPE;
    if (!begin_thread_stop())
        return;
    push_stop();
    own_threads_end_change();
}

EXPORT void kiln_push_get_statistics(struct kiln_push_statistics *statistics)
{
    struct kiln_push_statistics s;
    push_get_statistics(&s);
    s.size = statistics->size;
    memcpy(statistics, &s, s.size < sizeof s ? s.size : sizeof s);
}
