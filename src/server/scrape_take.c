#include "server/scrape_take.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/ingest.h"
#include "model/transform.h"
#include "server/ingest_fix.h"

static const struct ingest_sample_type cumulative[] = {
    {STR("alloc_objects"), STR(""), true},
    {STR("alloc_space"), STR(""), true},
    {STR("contentions"), STR(""), true},
    {STR("delay"), STR(""), true},
};
enum { N_CUMULATIVE = sizeof cumulative / sizeof *cumulative };

void scrape_memory_fini(struct scrape_memory *m)
{
    free(m->data);
    *m = (struct scrape_memory){0};
}

int scrape_read_secret(const char *file, char *text, size_t size, struct err *e)
{
    FILE *f = fopen(file, "r");
    if (!f)
        return err_set(e, "%s: %s", file, strerror(errno));
    size_t n = fread(text, 1, size - 1, f);
    fclose(f);
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' '))
        n--;
    text[n] = 0;
    return 0;
}

static bool is_cumulative(const struct model_profile *p, uint32_t type)
{
    for (size_t i = 0; i < N_CUMULATIVE; i++)
        if (str_eq(model_str(p, p->types[type].type), cumulative[i].type))
            return true;
    return false;
}

static double total(const struct model_profile *p, uint32_t type)
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
        if (is_cumulative(p, i) && total(p, i) < total(before, i))
            return false;
    return true;
}

static struct model_profile *differences(struct server *s, struct model_profile *p,
                                         const struct scrape_memory *memory, struct arena *arena,
                                         struct err *e)
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

static void remember(struct scrape_memory *memory, const struct net_answer *answer)
{
    uint8_t *copy = malloc(answer->n);
    scrape_memory_fini(memory);
    if (!copy)
        return;
    memcpy(copy, answer->data, answer->n);
    memory->data = copy;
    memory->n = answer->n;
}

static int take(struct server *s, const struct scrape_target *target,
                const struct net_answer *answer, struct scrape_memory *memory, struct arena *arena,
                struct err *e)
{
    struct model_profile *p =
        ingest_pprof(&s->config->limits, arena, (struct str){(char *)answer->data, answer->n}, e);
    if (!p)
        return -1;
    bool counts = false;
    for (uint32_t i = 0; i < p->n_types; i++)
        counts |= is_cumulative(p, i);
    if (counts && !target->profile->delta) {
        p = differences(s, p, memory, arena, e);
        remember(memory, answer);
        if (!p)
            return -1;
    }
    struct ingest_item item = {.profile = p, .n_labels = target->n_labels};
    item.labels = arena_array(arena, item.n_labels + 2, sizeof *item.labels);
    for (size_t i = 0; i < target->n_labels; i++) {
        const struct store_label *l = &target->labels[i];
        item.labels[i].name = (struct str){arena_copy(arena, l->name.p, l->name.n), l->name.n};
        item.labels[i].value = (struct str){arena_copy(arena, l->value.p, l->value.n), l->value.n};
    }
    struct str name = target->profile->name;
    item.labels[item.n_labels++] =
        (struct store_label){STR("__name__"), {arena_copy(arena, name.p, name.n), name.n}};
    return ingest_later(s, STR("anonymous"), &item, arena, e);
}

void scrape_take(struct server *s, const struct scrape_target *target,
                 const struct net_answer *answer, struct scrape_memory *memory,
                 struct scrape_health *health)
{
    struct err e = {""};
    struct arena_trap trap;
    if (answer->status != 200) {
        if (answer->status)
            snprintf(health->error, sizeof health->error, "the target answers %d: %.*s",
                     answer->status, answer->n < 150 ? (int)answer->n : 150,
                     answer->n ? (char *)answer->data : "");
        else
            snprintf(health->error, sizeof health->error, "%.250s", answer->error.message);
        return;
    }
    struct arena *arena = arena_new((size_t)1 << 30);
    if (!arena)
        return;
    int result;
    if (ARENA_TRY(arena, trap))
        result = arena_caught(arena, &e);
    else
        result = take(s, target, answer, memory, arena, &e);
    // On success the arena is the store's until the profile is durable, and perhaps gone by now.
    if (result) {
        snprintf(health->error, sizeof health->error, "%.250s", e.message);
        arena_free(arena);
    }
    health->up = result == 0;
}
