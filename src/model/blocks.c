#include "model/blocks.h"

#include <math.h>

#include "model/events.h"
#include "model/transform.h"

struct model_blocks model_blocks(const struct model_profile *p, struct str prefix)
{
    struct model_blocks b = {0};
    for (uint32_t i = 1; i < p->n_types; i++) {
        if (str_starts(model_str(p, p->types[i].type), prefix)) {
            b.first = b.n ? b.first : i;
            b.n++;
        } else if (b.n) {
            break;
        }
    }
    return b;
}

static const struct model_profile *split_block(const struct model_profile *p, uint32_t column,
                                               struct arena *arena)
{
    struct model_profile *whole = model_profile_derive(p, arena);
    bool *keep = arena_array(arena, p->n_samples, sizeof *keep), any = false;
    whole->n_types = 1;
    whole->values = arena_array(arena, p->n_samples, sizeof *whole->values);
    if (p->is_weighed)
        whole->squares = arena_array(arena, p->n_samples, sizeof *whole->squares);
    for (size_t i = 0; i < p->n_samples; i++) {
        const int64_t *values = model_values(p, i);
        whole->values[i] = values[column];
        keep[i] = values[column] != 0;
        any |= keep[i];
        // Events of one stack have the same weight in all parts.
        if (p->is_weighed && values[0])
            whole->squares[i] =
                model_squares(p, i) * fabs((double)values[column] / (double)values[0]);
    }
    return any ? model_select_samples(whole, keep, arena) : NULL;
}

size_t model_split_blocks(const struct model_profile *p, struct model_blocks blocks,
                          struct arena *arena, const struct model_profile **parts)
{
    size_t n = 0;
    for (uint32_t i = 0; i < blocks.n; i++) {
        const struct model_profile *part = split_block(p, blocks.first + i, arena);
        if (part)
            parts[n++] = part;
    }
    return n;
}
