#include "model/blocks.h"

#include "model/events.h"

struct model_blocks model_blocks(const struct model_profile *p, struct str prefix)
{
    struct model_blocks b = {0};
    for (uint32_t i = 1; i < p->n_types; i++) {
        if (!str_starts(model_str(p, p->types[i].type), prefix))
            continue;
        if (!b.n)
            b.first = i;
        b.n++;
    }
    return b;
}

static const struct model_profile *one_block(const struct model_profile *p, uint32_t column,
                                             struct arena *arena)
{
    struct model_profile *to = model_profile_derive(p, arena);
    size_t n = 0;
    for (size_t i = 0; i < p->n_samples; i++)
        n += model_values(p, i)[column] != 0;
    if (!n)
        return NULL;
    to->n_types = 1;
    to->n_samples = n;
    to->values = arena_array(arena, n, sizeof *to->values);
    to->stacks = arena_array(arena, n, sizeof *to->stacks);
    to->stack_len = arena_array(arena, n, sizeof *to->stack_len);
    if (p->label_set)
        to->label_set = arena_array(arena, n, sizeof *to->label_set);
    if (p->is_weighed)
        to->squares = arena_array(arena, n, sizeof *to->squares);
    n = 0;
    for (size_t i = 0; i < p->n_samples; i++) {
        const int64_t *values = model_values(p, i);
        if (!values[column])
            continue;
        to->values[n] = values[column];
        to->stacks[n] = p->stacks[i];
        to->stack_len[n] = p->stack_len[i];
        if (p->label_set)
            to->label_set[n] = p->label_set[i];
        // Events of one stack weigh the same in all parts.
        if (p->is_weighed)
            to->squares[n] =
                values[0] ? model_squares(p, i) * (double)values[column] / (double)values[0] : 0;
        n++;
    }
    return to;
}

size_t model_split_blocks(const struct model_profile *p, struct model_blocks blocks,
                          struct arena *arena, const struct model_profile **parts)
{
    size_t n = 0;
    for (uint32_t i = 0; i < blocks.n; i++) {
        const struct model_profile *part = one_block(p, blocks.first + i, arena);
        if (part)
            parts[n++] = part;
    }
    return n;
}
