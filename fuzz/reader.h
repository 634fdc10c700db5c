// Shared by all targets that read one format.
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/out.h"
#include "codec/codec.h"

typedef struct model_profile *fuzz_reader(struct arena *, const uint8_t *, size_t, struct err *);

static inline void fuzz_require(bool holds)
{
    if (!holds)
        abort();
}

// Checks that every reference is valid.
static inline void fuzz_check(const struct model_profile *p)
{
    struct err e;
    fuzz_require(model_check(p, &e) == 0);
    for (size_t i = 0; i < p->n_samples; i++) {
        for (uint32_t k = 0; k < p->stack_len[i]; k++)
            fuzz_require(model_stack(p, i)[k] < p->n_locations);
        fuzz_require(!p->label_set || p->label_set[i] < p->n_label_sets);
    }
    for (uint32_t i = 0; i < p->n_locations; i++) {
        const struct model_location *l = &p->locations[i];
        fuzz_require(l->mapping == MODEL_NONE || l->mapping < p->n_mappings);
        fuzz_require((uint64_t)l->first_line + l->n_lines <= p->n_lines || l->n_lines == 0);
        for (uint32_t k = 0; k < l->n_lines; k++)
            fuzz_require(p->lines[l->first_line + k].function < p->n_functions);
    }
}

static inline void fuzz_write(const struct model_profile *p)
{
    enum { WRITTEN = 16 << 20 };
    struct out out;
    out_init_memory(&out, WRITTEN);
    for (uint32_t i = 0; i < p->n_types && i < 4; i++)
        codec_write_folded(p, i, &out);
    codec_write_json(p, &out);
    codec_write_csv(p, &out);
    out_fini(&out);

    // speedscope output must be readable again, unless it was too large.
    struct arena *arena = arena_new((size_t)256 << 20);
    struct err e;
    out_init_memory(&out, WRITTEN);
    codec_write_speedscope(p, STR("fuzz"), &out);
    if (!out.error && p->n_samples < 1000)
        fuzz_require(codec_read_speedscope(arena, (const uint8_t *)out.p, out.n, &e) != NULL);
    out_fini(&out);
    arena_free(arena);
}

static inline int fuzz_read(fuzz_reader *read, const uint8_t *data, size_t n)
{
    struct arena *arena = arena_new((size_t)256 << 20);
    struct err e = {.message = ""};
    // A copy of exact size, freed before the profile is checked: a reader must neither read past
    // the end nor keep pointers.
    uint8_t *copy = malloc(n ? n : 1);
    if (n)
        memcpy(copy, data, n);
    struct model_profile *p = read(arena, copy, n, &e);
    free(copy);
    fuzz_require(p || e.message[0]);
    if (p) {
        fuzz_check(p);
        fuzz_write(p);
    }
    arena_free(arena);
    return 0;
}
