// Profiles that look like those of a service: stacks share prefixes, a few are hot, every profile
// has another choice of them. The same seed gives the same profile.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "model/builder.h"
#include "store/store.h"

static inline uint64_t profile_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct profile_shape {
    uint32_t n_functions, n_stacks, depth, samples; // samples: distinct stacks in a profile, about
    uint64_t base;                                  // where the program was loaded
};

// Stack number `which` of a service: a walk down a tree whose branches depend on it bit by bit,
// so that stacks with numbers close to each other share long prefixes. Leaf first.
static inline uint32_t profile_stack(const struct profile_shape *shape, uint32_t which,
                                     uint32_t *functions)
{
    uint64_t seed = which * 7919u + 13;
    uint32_t depth = shape->depth / 2 + (uint32_t)(profile_random(&seed) % (shape->depth / 2 + 1));
    for (uint32_t d = 0; d < depth; d++) {
        // The prefix of length d is shared by all stacks with the same upper bits.
        uint32_t shared =
            d * 16 / shape->depth >= 16 ? which : which >> (14 - d * 14 / shape->depth);
        uint64_t at = ((uint64_t)shared << 20) + d;
        functions[depth - 1 - d] = (uint32_t)(profile_random(&at) % shape->n_functions);
    }
    return depth;
}

enum profile_kind { PROFILE_CPU, PROFILE_HEAP };

// The frames of a stack in a profile under construction; its depth.
static inline uint32_t profile_frames(struct model_builder *b, const struct profile_shape *shape,
                                      uint32_t mapping, uint32_t which, uint32_t *stack)
{
    uint32_t functions[256];
    uint32_t depth = profile_stack(shape, which, functions);
    for (uint32_t d = 0; d < depth; d++) {
        char name[64], file[64];
        uint32_t f = functions[d];
        uint64_t at = f * 31 + (d == 0 ? which % 3 : 0);
        snprintf(name, sizeof name, "service::module%u::function_%u", f % 37, f);
        snprintf(file, sizeof file, "/build/src/module%u.rs", f % 37);
        uint32_t string = model_build_string(b, str_from(name));
        uint32_t function = model_build_function(
            b, string, string, model_build_string(b, str_from(file)), (int64_t)f * 10);
        struct model_line line = {(int64_t)(f * 10 + at % 7), 0, function};
        stack[d] = model_build_location(b, mapping, shape->base + 0x1000 + at * 16, &line, 1);
    }
    return depth;
}

// Types, period and the one mapping.
static inline uint32_t profile_begin(struct model_builder *b, struct arena *arena,
                                     const struct profile_shape *shape, enum profile_kind kind)
{
    model_build(b, arena);
    struct model_profile *p = b->p;
    if (kind == PROFILE_CPU) {
        model_build_type(b, STR("samples"), STR("count"));
        model_build_type(b, STR("cpu"), STR("nanoseconds"));
        p->period_type = (struct model_value_type){model_build_string(b, STR("cpu")),
                                                   model_build_string(b, STR("nanoseconds"))};
        p->period = 10000000;
    } else {
        model_build_type(b, STR("alloc_objects"), STR("count"));
        model_build_type(b, STR("alloc_space"), STR("bytes"));
        model_build_type(b, STR("inuse_objects"), STR("count"));
        model_build_type(b, STR("inuse_space"), STR("bytes"));
        p->period_type = (struct model_value_type){model_build_string(b, STR("space")),
                                                   model_build_string(b, STR("bytes"))};
        p->period = 524288;
    }
    return model_build_mapping(
        b, (struct model_mapping){.start = shape->base,
                                  .limit = shape->base + 0x1000000,
                                  .offset = 0x1000,
                                  .file = model_build_string(b, STR("/usr/bin/service")),
                                  .build_id = model_build_string(b, STR("0123456789abcdef")),
                                  .has_functions = true});
}

static inline struct model_profile *profile_make(struct arena *arena,
                                                 const struct profile_shape *shape,
                                                 enum profile_kind kind, uint64_t seed)
{
    struct model_builder b;
    uint32_t mapping = profile_begin(&b, arena, shape, kind);
    uint32_t stack[256];
    uint64_t random = seed * 0x2545f4914f6cdd1du + 1;
    for (uint32_t i = 0; i < shape->samples; i++) {
        // Squared twice: some stacks are in every profile, many in few.
        double u = (double)(profile_random(&random) >> 11) / (double)(UINT64_C(1) << 53);
        uint32_t which = (uint32_t)(u * u * u * shape->n_stacks);
        uint32_t depth = profile_frames(&b, shape, mapping, which, stack);
        uint64_t n = 1 + profile_random(&random) % (u < 0.1 ? 12 : 2);
        int64_t cpu[2] = {(int64_t)n, (int64_t)n * 10000000};
        int64_t heap[4] = {(int64_t)n, (int64_t)n * (int64_t)(100 + which % 4000), (int64_t)(n / 2),
                           (int64_t)(n / 2) * (int64_t)(100 + which % 4000)};
        model_build_sample(&b, stack, depth, kind == PROFILE_CPU ? cpu : heap);
    }
    return b.p;
}

// Every stack of a service once: what profile_draw takes samples from.
static inline struct model_profile *profile_all(struct arena *arena,
                                                const struct profile_shape *shape)
{
    struct model_builder b;
    uint32_t mapping = profile_begin(&b, arena, shape, PROFILE_CPU);
    for (uint32_t which = 0; which < shape->n_stacks; which++) {
        uint32_t stack[256];
        int64_t values[2] = {1, 10000000};
        uint32_t depth = profile_frames(&b, shape, mapping, which, stack);
        model_build_sample(&b, stack, depth, values);
    }
    return b.p;
}

// A profile of so many samples of a service, a few stacks hot and many rare; shares its symbols.
static inline struct model_profile *
profile_draw(struct arena *arena, const struct model_profile *all, uint32_t draws, uint64_t seed)
{
    struct model_profile *p = model_profile_derive(all, arena);
    uint32_t *hits = arena_array(arena, all->n_samples, sizeof *hits), n = 0;
    uint64_t random = seed * 0x2545f4914f6cdd1du + 1;
    for (uint32_t i = 0; i < draws; i++) {
        double u = (double)(profile_random(&random) >> 11) / (double)(UINT64_C(1) << 53);
        n += hits[(uint32_t)(u * u * u * (double)all->n_samples)]++ == 0;
    }
    p->values = arena_array(arena, (size_t)n * 2, sizeof *p->values);
    p->stacks = arena_array(arena, n, sizeof *p->stacks);
    p->stack_len = arena_array(arena, n, sizeof *p->stack_len);
    p->n_samples = 0;
    for (size_t i = 0; i < all->n_samples; i++) {
        // Not in the order of the stacks: profilers write theirs as they come.
        size_t from = i * 7919 % all->n_samples;
        if (!hits[from])
            continue;
        p->values[p->n_samples * 2] = hits[from];
        p->values[p->n_samples * 2 + 1] = hits[from] * INT64_C(10000000);
        p->stacks[p->n_samples] = all->stacks[from];
        p->stack_len[p->n_samples++] = all->stack_len[from];
    }
    return p;
}
