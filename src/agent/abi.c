// The installed C interface: checks what it is given and calls the rooms.
#include <kiln/kiln.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"

#define EXPORT __attribute__((visibility("default")))

static int tell(struct kiln_error *error, const struct err *e)
{
    if (error)
        memcpy(error->message, e->message, sizeof error->message);
    return -1;
}

EXPORT int kiln_start(const struct kiln_options *options, struct kiln_error *error)
{
    struct kiln_options o = {0};
    if (options)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    struct agent_options agent = {.hz = o.frequency, .depth = o.depth, .memory = o.memory};
    struct err e = {""};
    return agent_start(&agent, &e) ? tell(error, &e) : 0;
}

EXPORT void kiln_stop(void)
{
    agent_stop();
}

EXPORT int kiln_window_begin(struct kiln_error *error)
{
    struct err e = {""};
    int window = agent_window_open(&(struct agent_window_options){0}, &e);
    return window < 0 ? tell(error, &e) : window;
}

EXPORT int kiln_window_write(int window, int fd, struct kiln_error *error)
{
    struct err e = {""};
    struct arena *arena = arena_new(0);
    if (!arena) {
        agent_window_cancel(window);
        err_set(&e, "no memory for a profile");
        return tell(error, &e);
    }
    struct model_profile *p = agent_window_close(window, arena, &e);
    struct out out;
    out_init_fd(&out, fd);
    struct agent_output how = {.format = AGENT_PPROF, .addresses = true};
    int result = !p || agent_write(p, arena, &how, &out, &e) || out_finish(&out, &e);
    out_fini(&out);
    arena_free(arena);
    return result ? tell(error, &e) : 0;
}

EXPORT void kiln_window_cancel(int window)
{
    agent_window_cancel(window);
}

EXPORT kiln_labels kiln_labels_with(kiln_labels base, const char *key, const char *value)
{
    return agent_label_add(base, str_from(key), str_from(value));
}

EXPORT kiln_labels kiln_labels_without(kiln_labels base, const char *key)
{
    return agent_label_remove(base, str_from(key));
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

EXPORT void kiln_get_statistics(struct kiln_statistics *statistics)
{
    struct agent_counts c;
    agent_get_counts(&c);
    struct kiln_statistics s = {
        .size = statistics->size,
        .ticks = c.capture.ticks,
        .samples = c.capture.samples,
        .ring_full = c.capture.ring_full,
        .not_ready = c.capture.no_snapshot,
        .blocked = c.capture.blocked,
        .unticked = c.capture.unticked,
        .out_of_memory = c.dropped,
        .threads = c.capture.threads,
        .stacks = c.stacks,
        .memory = c.memory,
    };
    for (int i = UNWIND_END_TRUNCATED; i < UNWIND_END_COUNT; i++)
        s.truncated += c.capture.ended[i];
    memcpy(statistics, &s, s.size < sizeof s ? s.size : sizeof s);
}
