#include "server/scrape_take.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/transform.h"
#include "server/ingest_fix.h"
#include "server/outgoing.h"

static const struct ingest_sample_type cumulative[] = {
    {STR("alloc_objects"), STR(""), true},
    {STR("alloc_space"), STR(""), true},
    {STR("contentions"), STR(""), true},
    {STR("delay"), STR(""), true},
};
enum { N_CUMULATIVE = sizeof cumulative / sizeof *cumulative };

enum { REMEMBERED_MAX = 16 << 20 }; // bytes of one answer

void scrape_memory_fini(struct scrape_memory *m)
{
    budget_release(m->account, m->n);
    free(m->data);
    m->data = NULL;
    m->n = 0;
}

static bool is_cumulative(const struct model_profile *p, uint32_t type)
{
    for (size_t i = 0; i < N_CUMULATIVE; i++)
        if (str_eq(model_str(p, p->types[type].type), cumulative[i].type))
            return true;
    return false;
}

static double scraped_total(const struct model_profile *p, uint32_t type)
{
    double sum = 0;
    for (size_t i = 0; i < p->n_samples; i++)
        sum += (double)model_values(p, i)[type];
    return sum;
}

// Whether before is the same process's, earlier.
static bool went_on(const struct model_profile *p, const struct model_profile *before)
{
    struct err e;
    if (model_check_equal_types(p, before, &e))
        return false;
    for (uint32_t i = 0; i < p->n_types; i++)
        if (is_cumulative(p, i) && scraped_total(p, i) < scraped_total(before, i))
            return false;
    return true;
}

static struct model_profile *subtract_before(struct server *s, struct model_profile *p,
                                             const struct scrape_memory *memory,
                                             struct arena *arena, struct err *e)
{
    const struct ingest_types types = {true, (struct ingest_sample_type *)cumulative, N_CUMULATIVE};
    struct model_profile *before = NULL;
    if (memory->n)
        before = ingest_pprof(&s->config->limits, arena,
                              (struct str){(char *)memory->data, memory->n}, e);
    if (before && went_on(p, before))
        return ingest_subtract(p, before, &types, arena, e);
    for (uint32_t k = 0; k < p->n_types; k++)
        for (size_t i = 0; is_cumulative(p, k) && i < p->n_samples; i++)
            p->values[i * p->n_types + k] = 0;
    return p;
}

static void remember_scrape(struct scrape_memory *memory, struct str data)
{
    scrape_memory_fini(memory);
    if (data.n > REMEMBERED_MAX || budget_charge(memory->account, data.n))
        return;
    uint8_t *copy = malloc(data.n);
    if (!copy) {
        budget_release(memory->account, data.n);
        return;
    }
    memcpy(copy, data.p, data.n);
    memory->data = copy;
    memory->n = data.n;
}

// The labels of the target and the profile's name, in arena.
static void copy_labels(const struct scrape_target *target, struct arena *arena,
                        struct ingest_item *item)
{
    item->labels = arena_array(arena, target->n_labels + 2, sizeof *item->labels);
    item->n_labels = target->n_labels;
    for (size_t i = 0; i < target->n_labels; i++) {
        const struct store_label *l = &target->labels[i];
        item->labels[i].name = (struct str){arena_copy(arena, l->name.p, l->name.n), l->name.n};
        item->labels[i].value = (struct str){arena_copy(arena, l->value.p, l->value.n), l->value.n};
    }
    struct str name = target->profile->name;
    item->labels[item->n_labels++] =
        (struct store_label){STR("__name__"), {arena_copy(arena, name.p, name.n), name.n}};
}

static int decode_scraped(struct server *s, const struct scrape_target *target, struct str data,
                          struct scrape_memory *memory, struct scrape_taken *taken, struct err *e)
{
    struct model_profile *p = ingest_pprof(&s->config->limits, taken->arena, data, e);
    if (!p)
        return -1;
    bool counts = false;
    for (uint32_t i = 0; i < p->n_types; i++)
        counts |= is_cumulative(p, i);
    if (counts && !target->profile->delta) {
        p = subtract_before(s, p, memory, taken->arena, e);
        remember_scrape(memory, data);
        if (!p)
            return -1;
    }
    taken->item = (struct ingest_item){.profile = p};
    copy_labels(target, taken->arena, &taken->item);
    return 0;
}

int scrape_read(struct server *s, const struct scrape_target *target, struct str data,
                struct scrape_memory *memory, struct budget *budget, struct scrape_taken *taken,
                struct err *e)
{
    struct arena_trap trap;
    int result;
    *taken = (struct scrape_taken){.arena = arena_new_in(budget, 0)};
    if (!taken->arena)
        return err_set(e, "out of memory");
    if (ARENA_TRY(taken->arena, trap)) {
        result = arena_caught(taken->arena, e);
    } else {
        result = decode_scraped(s, target, data, memory, taken, e);
        arena_try_end(taken->arena);
    }
    if (result)
        arena_free(taken->arena);
    return result;
}

int scrape_store(struct server *s, const struct scrape_target *target, struct scrape_taken *taken,
                 void (*done)(void *context), void *context, struct err *e)
{
    struct arena *arena = taken->arena;
    struct arena_trap trap;
    int result;
    if (ARENA_TRY(arena, trap)) {
        result = arena_caught(arena, e);
    } else {
        // The tenant is needed until the profile is durable, which may be longer than the target.
        struct str tenant = {arena_copy(arena, target->tenant.p, target->tenant.n),
                             target->tenant.n};
        result = ingest_later(s, tenant, &taken->item, arena, done, context, e);
    }
    // On success the arena is the store's until the profile is durable, and perhaps gone by now.
    if (result) {
        arena_free(arena);
        done(context);
    }
    return result ? -1 : 0;
}

void scrape_explain(const struct net_answer *answer, struct scrape_health *health)
{
    if (answer->status == 200) {
        snprintf(health->error, sizeof health->error, "the target was removed");
        return;
    }
    outgoing_explain(answer, "the target", health->error, sizeof health->error);
}
