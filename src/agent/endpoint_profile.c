// CPU profiles: parameters, the window, the answer.
#include <stdio.h>
#include <stdlib.h>

#include "agent/endpoint.h"

enum {
    VALUE_MAX = 64,
    MOST_SECONDS = 3600,
    MOST_HZ = 10000,
    LEAST_WIDTH = 200,
    MOST_WIDTH = 20000
};

static const struct {
    const char *name, *type, *file; // file: is downloaded under this name, not shown
    bool compress;
} formats[] = {
    [AGENT_PPROF] = {"pprof", "application/octet-stream", "profile.pb.gz", false},
    [AGENT_PPROF_PLAIN] = {NULL, "application/protobuf", "profile.pb", false},
    [AGENT_FOLDED] = {"folded", "text/plain; charset=utf-8", NULL, true},
    [AGENT_SVG] = {"svg", "image/svg+xml", NULL, true},
    [AGENT_HTML] = {"html", "text/html; charset=utf-8", NULL, true},
    [AGENT_JSON] = {"json", "application/json", NULL, true},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

struct parameters {
    uint32_t seconds, last, hz;
    bool force;
    struct agent_output output;
};

// --- parameters: one that is there but empty, as a form sends it, is not there ---

static int get_number(struct str query, const char *name, uint32_t least, uint32_t most,
                      uint32_t *value, struct err *e)
{
    char text[VALUE_MAX];
    uint64_t number;
    int found = http_parameter(query, name, text, sizeof text, e);
    if (found <= 0 || !*text)
        return found < 0 ? -1 : 0;
    if (!str_to_u64(str_from(text), 10, &number) || number < least || number > most)
        return err_set(e, "%s=%s: a whole number from %u to %u is accepted", name, text, least,
                       most);
    *value = (uint32_t)number;
    return 0;
}

static int get_switch(struct str query, const char *name, bool *value, struct err *e)
{
    char text[VALUE_MAX];
    int found = http_parameter(query, name, text, sizeof text, e);
    if (found <= 0 || !*text)
        return found < 0 ? -1 : 0;
    bool yes = strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
    if (!yes && strcmp(text, "0") != 0 && strcmp(text, "false") != 0)
        return err_set(e, "%s=%s: 0, 1, false and true are accepted", name, text);
    *value = yes;
    return 0;
}

static int get_format(struct str query, enum agent_format *format, struct err *e)
{
    char text[VALUE_MAX];
    int found = http_parameter(query, "format", text, sizeof text, e);
    if (found <= 0 || !*text)
        return found < 0 ? -1 : 0;
    for (size_t i = 0; i < N_FORMATS; i++)
        if (formats[i].name && strcmp(text, formats[i].name) == 0) {
            *format = (enum agent_format)i;
            return 0;
        }
    return err_set(e, "format=%s: pprof, svg, folded, html and json are accepted", text);
}

static int get_parameters(const struct exchange *x, struct parameters *p, struct err *e)
{
    struct str query = x->q->query;
    bool names = true, labels = true;
    uint32_t seconds = 0;
    *p = (struct parameters){.output = {.format = x->route->format, .width = x->route->width}};
    if (get_number(query, "seconds", 1, MOST_SECONDS, &seconds, e) ||
        get_number(query, "last", 1, AGENT_LAST_SECONDS, &p->last, e) ||
        get_number(query, "frequency", 1, MOST_HZ, &p->hz, e) ||
        get_number(query, "image_width", LEAST_WIDTH, MOST_WIDTH, &p->output.width, e) ||
        get_switch(query, "force", &p->force, e) || get_switch(query, "symbolize", &names, e) ||
        get_switch(query, "labels", &labels, e) || get_format(query, &p->output.format, e))
        return -1;
    if (p->last && (seconds || p->hz))
        return err_set(e,
                       "last=%u: what is past cannot be had together with seconds, which are to "
                       "come, nor at another frequency",
                       p->last);
    p->seconds = seconds ? seconds : x->route->seconds;
    p->output.addresses = !names;
    p->output.no_labels = !labels;
    // TiKV's way to ask for a profile that is not gzipped.
    if (p->output.format == AGENT_PPROF &&
        http_list_has(http_header(x->q, STR("Content-Type")), STR("application/protobuf")))
        p->output.format = AGENT_PPROF_PLAIN;
    return 0;
}

// --- the answer ---

static void describe(struct http_answer *a, enum agent_format format)
{
    char text[80];
    a->type = formats[format].type;
    if (formats[format].file) {
        snprintf(text, sizeof text, "attachment; filename=\"%s\"", formats[format].file);
        http_answer_header(a, "Content-Disposition", text);
    }
    // What a flame graph needs is in it.
    if (format == AGENT_SVG || format == AGENT_HTML)
        http_answer_header(a, "Content-Security-Policy",
                           "default-src 'none'; style-src 'unsafe-inline'; script-src "
                           "'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
                           "frame-ancestors 'none'");
}

struct window {
    struct job job;
    int window; // -1: the last seconds
    struct parameters p;
};

// Memory that runs out ends the request, not the process.
static int write_profile(struct window *w, struct arena *arena, struct out *out, struct err *e)
{
    struct model_profile *p =
        w->window >= 0 ? agent_window_close(w->window, arena, e) : agent_last(w->p.last, arena, e);
    struct arena_trap trap;
    if (!p)
        return -1;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    int result = agent_write(p, arena, &w->p.output, out, e);
    arena_try_end(arena);
    return result ? result : out_finish(out, e);
}

static void finish(struct job *job, const struct http_request *q, struct http_answer *a)
{
    struct window *w = (struct window *)job;
    struct err e = {"no memory for a profile"};
    struct arena *arena = arena_new((size_t)1 << 30);
    if (!arena && w->window >= 0)
        agent_window_cancel(w->window);
    if (!arena || write_profile(w, arena, &a->body, &e)) {
        http_answer_text(a, 503, "%s", e.message);
    } else {
        describe(a, w->p.output.format);
        if (formats[w->p.output.format].compress)
            endpoint_compress(q, a);
    }
    arena_free(arena);
    free(w);
}

// The window is as long as it was asked for, however long its answer must wait for others.
static void due(struct job *job)
{
    agent_window_end(((struct window *)job)->window);
}

static void abandon(struct job *job)
{
    struct window *w = (struct window *)job;
    if (w->window >= 0)
        agent_window_cancel(w->window);
    free(w);
}

bool endpoint_profile(struct exchange *x)
{
    struct parameters p;
    struct err e = {""};
    if (get_parameters(x, &p, &e)) {
        http_answer_text(x->a, 400, "%s", e.message);
        return true;
    }
    if (str_eq(x->q->method, STR("HEAD"))) {
        describe(x->a, p.output.format);
        x->a->no_length = true;
        return true;
    }
    struct window *w = malloc(sizeof *w);
    if (!w) {
        http_answer_text(x->a, 503, "no memory for a profile");
        return true;
    }
    *w = (struct window){{finish, abandon, due}, -1, p};
    struct agent_window_options o = {.hz = p.hz, .force = p.force};
    if (!p.last && (w->window = agent_window_open(&o, &e)) < 0) {
        bool conflict = w->window == AGENT_CONFLICT;
        http_answer_text(x->a, conflict ? 409 : 503, "%s%s", e.message,
                         conflict ? "; force=true takes over" : "");
        free(w);
        return true;
    }
    x->later->state = &w->job;
    x->later->delay_ns = p.last ? 0 : (uint64_t)p.seconds * 1000000000u;
    return false;
}
