// Stacks with values on both sides, one profile each, for what compares functions.
#pragma once

#include "stats/functions.h"

enum { STACK_FRAMES = 5 };

// A stack (leaf first, by name) and its values on both sides.
struct stack {
    const char *names[STACK_FRAMES];
    double values[2];
};

struct input {
    const struct stack *stacks;
    size_t n;
};

static size_t rows_of(struct stats_functions *f, const struct stack *stack, uint32_t *rows)
{
    size_t n = 0;
    for (; n < STACK_FRAMES && stack->names[n]; n++)
        rows[n] = stats_functions_row(f, str_from(stack->names[n]));
    return n;
}

static void replay(void *context, struct stats_functions *f)
{
    const struct input *input = context;
    for (size_t i = 0; i < input->n; i++)
        for (size_t side = 0; side < 2; side++) {
            uint32_t rows[STACK_FRAMES];
            size_t n = rows_of(f, &input->stacks[i], rows);
            double value = input->stacks[i].values[side];
            stats_functions_add(f, side, rows, n, (struct stats_cell){value, value});
        }
}

// input must live as long as f is used.
static void compare(struct stats_functions *f, struct input *input, struct arena *arena)
{
    stats_functions_init(f, (size_t[2]){1, 1}, arena);
    for (size_t i = 0; i < input->n; i++)
        rows_of(f, &input->stacks[i], (uint32_t[STACK_FRAMES]){0});
    f->each = replay;
    f->context = input;
    stats_functions_compare(f, STATS_LEVEL);
}
