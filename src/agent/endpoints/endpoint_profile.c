// CPU profile endpoints: parameters, the window, the response.
#include <stdlib.h>

#include "agent/endpoints/endpoint.h"

enum { MOST_HZ = 10000 };

struct parameters {
    uint32_t seconds, last, hz;
    bool force;
    struct agent_output output;
};

static int parse_profile_parameters(const struct exchange *x, struct parameters *p, struct err *e)
{
    struct str query = x->q->query;
    uint32_t seconds = 0;
    *p = (struct parameters){0};
    if (endpoint_number(query, "seconds", 1, ENDPOINT_SECONDS, &seconds, e) ||
        endpoint_number(query, "last", 1, AGENT_LAST_SECONDS, &p->last, e) ||
        endpoint_number(query, "frequency", 1, MOST_HZ, &p->hz, e) ||
        endpoint_switch(query, "force", &p->force, e) || endpoint_output(x, &p->output, e))
        return -1;
    if (p->last && (seconds || p->hz))
        return err_set(e, "last=%u cannot be combined with seconds= or frequency=", p->last);
    p->seconds = seconds ? seconds : x->route->seconds;
    return 0;
}

struct window {
    struct job job;
    int window; // -1: the last seconds
    struct parameters p;
    const char *name;
};

static uint64_t finish_profile_job(struct job *job, const struct http_request *q,
                                   struct http_answer *a)
{
    struct window *w = (struct window *)job;
    struct err e = {"no memory for a profile"};
    struct arena *arena = arena_new((size_t)1 << 30);
    struct model_profile *p = NULL;
    if (!arena && w->window >= 0)
        agent_window_cancel(w->window);
    else if (arena)
        p = w->window >= 0 ? agent_window_close(w->window, arena, &e)
                           : agent_last(w->p.last, arena, &e);
    endpoint_answer(q, a, p, arena, &w->p.output, w->name, &e);
    arena_free(arena);
    free(w);
    return 0;
}

// Ends the window on time, however long its response must wait for others.
static void end_profile_window(struct job *job)
{
    agent_window_end(((struct window *)job)->window);
}

static void abandon_profile_job(struct job *job)
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
    if (parse_profile_parameters(x, &p, &e)) {
        http_answer_text(x->a, 400, "%s", e.message);
        return true;
    }
    if (str_eq(x->q->method, STR("HEAD"))) {
        endpoint_describe(x->a, p.output.format, x->route->name);
        x->a->no_length = true;
        return true;
    }
    struct window *w = malloc(sizeof *w);
    if (!w) {
        http_answer_text(x->a, 503, "no memory for a profile");
        return true;
    }
    *w = (struct window){
        {finish_profile_job, abandon_profile_job, end_profile_window}, -1, p, x->route->name};
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
