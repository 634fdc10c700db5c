// Heap profiles: parameters, the difference between two snapshots, the answer.
#include <stdlib.h>
#include <time.h>

#include "agent/endpoint.h"
#include "agent/heap.h"
#include "model/transform.h"

enum { MEMORY = 1 << 30 };

struct parameters {
    uint32_t seconds; // 0: all since sampling began
    struct agent_output output;
};

struct request {
    struct job job;
    struct parameters p;
    const char *name;
    bool allocs;
    struct arena *arena;
    struct model_profile *first; // of a window
    uint64_t began;              // monotonic
};

static int get_parameters(const struct exchange *x, struct parameters *p, struct err *e)
{
    struct str query = x->q->query;
    uint32_t debug = 0;
    *p = (struct parameters){0};
    if (endpoint_number(query, "seconds", 1, ENDPOINT_SECONDS, &p->seconds, e) ||
        endpoint_number(query, "debug", 0, 2, &debug, e) || endpoint_output(x, &p->output, e))
        return -1;
    if (debug && p->seconds)
        return err_set(e, "debug=%u: text is not to be had together with seconds", debug);
    if (debug)
        p->output.format = AGENT_HEAP_TEXT;
    return 0;
}

static bool is_off(struct err *e)
{
    const struct heap_source *source = heap_source();
    struct err jemalloc = {""}, sampler = {""};
    if (source && source->active())
        return false;
    if (source == &heap_jemalloc) {
        err_set(e,
                "heap profiling not activated: jemalloc's profiler is there but not active; switch "
                "it on by mallctl(\"prof.active\"), or start the process with prof_active:true in "
                "MALLOC_CONF (_RJEM_MALLOC_CONF where jemalloc is prefixed)");
        return true;
    }
    if (source) {
        err_set(e, "heap profiling not activated: kiln's sampling of allocations is there but not "
                   "active; switch it on by kiln_heap_start or KILN_HEAP=1");
        return true;
    }
    heap_jemalloc.activate(&jemalloc);
    heap_sampler.activate(&sampler);
    err_set(e,
            "heap profiling not activated: %s. Or, for any allocator, preload libkiln_malloc.so "
            "(`kiln run --heap` does): %s",
            jemalloc.message, sampler.message);
    return true;
}

// --- profiles ---

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct model_profile *snapshot(struct arena *arena, struct err *e)
{
    const struct heap_source *source = heap_source();
    if (source)
        return source->snapshot(arena, e);
    err_set(e, "heap profiling was switched off");
    return NULL;
}

// What was allocated since first, and how what is in use changed.
static struct model_profile *subtract(struct model_profile *last, struct model_profile *first,
                                      struct arena *arena, struct err *e)
{
    struct model_profile *both[2] = {last, first};
    if (model_make_compatible(both, 2, arena, e))
        return NULL;
    double *ratios = arena_array(arena, both[1]->n_types + 1, sizeof *ratios);
    for (uint32_t i = 0; i < both[1]->n_types; i++)
        ratios[i] = -1;
    both[1] = model_scale(both[1], ratios, arena);
    struct model_profile *p = both[1] ? model_merge(both, 2, arena, e) : NULL;
    if (p)
        p->time_nanos = first->time_nanos;
    return p;
}

static void show_allocations(struct model_profile *p)
{
    uint32_t name = model_find_string(p->strings, STR("alloc_space"));
    for (uint32_t i = 0; i < p->n_types; i++)
        if (p->types[i].type == name)
            p->default_type = name;
}

static struct model_profile *make_profile(struct request *r, struct err *e)
{
    struct arena_trap trap;
    struct model_profile *p = snapshot(r->arena, e);
    if (!p)
        return NULL;
    if (ARENA_TRY(r->arena, trap)) {
        arena_caught(r->arena, e);
        return NULL;
    }
    if (r->first && (p = subtract(p, r->first, r->arena, e)))
        p->duration_nanos = (int64_t)(now_ns() - r->began);
    if (p && r->allocs)
        show_allocations(p);
    arena_try_end(r->arena);
    return p;
}

// --- answers ---

static void abandon(struct job *job)
{
    struct request *r = (struct request *)job;
    arena_free(r->arena);
    free(r);
}

static uint64_t finish(struct job *job, const struct http_request *q, struct http_answer *a)
{
    struct request *r = (struct request *)job;
    struct err e = {"no memory for a profile"};
    struct model_profile *p = NULL;
    if (!r->arena)
        r->arena = arena_new(MEMORY);
    if (r->arena && r->p.seconds && !r->first) {
        r->first = snapshot(r->arena, &e);
        r->began = now_ns();
        if (r->first)
            return (uint64_t)r->p.seconds * 1000000000u;
    } else if (r->arena) {
        p = make_profile(r, &e);
    }
    endpoint_answer(q, a, p, r->arena, &r->p.output, r->name, &e);
    abandon(job);
    return 0;
}

bool endpoint_heap(struct exchange *x)
{
    struct parameters p;
    struct err e = {""};
    if (get_parameters(x, &p, &e)) {
        http_answer_text(x->a, 400, "%s", e.message);
        return true;
    }
    if (is_off(&e)) {
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
    *r = (struct request){.job = {finish, abandon},
                          .p = p,
                          .name = x->route->name,
                          .allocs = strcmp(x->route->name, "allocs") == 0};
    x->later->state = &r->job;
    return false;
}
