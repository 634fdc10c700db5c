// Heap profile endpoints: parameters, the difference between two snapshots, the response.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/endpoints/endpoint.h"
#include "agent/heap/heap_source.h"
#include "agent/heap/heap_windows.h"

enum { MEMORY = 1 << 30 };

struct parameters {
    uint32_t seconds; // 0: everything since sampling began
    struct agent_output output;
};

struct request {
    struct job job;
    struct parameters p;
    const char *name;
    bool allocs;
    struct arena *arena;
    struct model_profile *first; // snapshot at the start of the window
    char title[128];
};

static int parse_heap_parameters(const struct exchange *x, struct parameters *p, struct err *e)
{
    struct str query = x->q->query;
    uint32_t debug = 0;
    *p = (struct parameters){0};
    if (endpoint_number(query, "seconds", 1, ENDPOINT_SECONDS, &p->seconds, e) ||
        endpoint_number(query, "debug", 0, 2, &debug, e) || endpoint_output(x, &p->output, e))
        return -1;
    if (debug && p->seconds)
        return err_set(e, "debug=%u (text) cannot be combined with seconds=", debug);
    if (debug)
        p->output.format = AGENT_HEAP_TEXT;
    return 0;
}

static bool heap_profiling_is_off(struct err *e)
{
    const struct heap_source *source = heap_source();
    struct err why = {""};
    if (source && source->active())
        return false;
    if (source == &heap_jemalloc) {
        err_set(e, "heap profiling not activated: jemalloc's profiler is not active; enable "
                   "it by mallctl(\"prof.active\"), or start the process with prof_active:true in "
                   "MALLOC_CONF (_RJEM_MALLOC_CONF where jemalloc is prefixed)");
    } else if (source) {
        err_set(e, "heap profiling not activated: sampling was not started; "
                   "call kiln_heap_start, or start the process with KILN_HEAP=1");
    } else {
        heap_jemalloc.activate(&why);
        err_set(e,
                "heap profiling not activated: %s; for other allocators, preload "
                "libkiln_malloc.so and set KILN_HEAP=1, use `kiln run --heap`, or in Rust "
                "kiln::heap::Allocator",
                why.message);
    }
    return true;
}

// --- profiles ---

static void show_allocations(struct model_profile *p)
{
    uint32_t name = model_find_string(p->strings, STR("alloc_space"));
    for (uint32_t i = 0; i < p->n_types; i++)
        if (p->types[i].type == name)
            p->default_type = name;
}

static struct model_profile *make_heap_profile(struct request *r, struct err *e)
{
    struct model_profile *p = heap_profile(r->arena, e);
    if (p && r->first)
        p = heap_difference(p, r->first, r->arena, e);
    if (p && r->allocs)
        show_allocations(p);
    return p;
}

// --- responses ---

static void abandon_heap_job(struct job *job)
{
    struct request *r = (struct request *)job;
    arena_free(r->arena);
    free(r);
}

static uint64_t finish_heap_job(struct job *job, const struct http_request *q,
                                struct http_answer *a)
{
    struct request *r = (struct request *)job;
    struct err e = {"no memory for a profile"};
    struct model_profile *p = NULL;
    if (!r->arena)
        r->arena = arena_new(MEMORY);
    if (r->arena && r->p.seconds && !r->first) {
        r->first = heap_profile(r->arena, &e);
        if (r->first)
            return (uint64_t)r->p.seconds * 1000000000u;
    } else if (r->arena) {
        p = make_heap_profile(r, &e);
    }
    endpoint_answer(q, a, p, r->arena, &r->p.output, r->name, &e);
    abandon_heap_job(job);
    return 0;
}

bool endpoint_heap(struct exchange *x)
{
    struct parameters p;
    struct err e = {""};
    if (parse_heap_parameters(x, &p, &e)) {
        http_answer_text(x->a, 400, "%s", e.message);
        return true;
    }
    if (heap_profiling_is_off(&e)) {
        http_answer_text(x->a, 403, "%s", e.message);
        return true;
    }
    if (str_eq(x->q->method, STR("HEAD"))) {
        endpoint_describe(x->a, p.output.format, x->route->name);
        x->a->no_length = true;
        return true;
    }
    struct request *r = malloc(sizeof *r);
    if (!r) {
        http_answer_text(x->a, 503, "no memory for a profile");
        return true;
    }
    *r = (struct request){.job = {.finish = finish_heap_job, .abandon = abandon_heap_job},
                          .p = p,
                          .name = x->route->name,
                          .allocs = strcmp(x->route->name, "allocs") == 0};
    if (p.seconds && !r->allocs) {
        snprintf(r->title, sizeof r->title, "Growth of memory in use by %s",
                 program_invocation_short_name);
        r->p.output.title = r->title;
    }
    x->later->state = &r->job;
    return false;
}
