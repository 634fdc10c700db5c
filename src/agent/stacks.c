#include "agent/stacks.h"

#include "agent/agent.h"
#include "model/builder.h"

void stacks_init(struct stacks *s, struct arena *arena)
{
    *s = (struct stacks){.arena = arena};
    hash_init(&s->index, arena, 1024);
}

static uint64_t hash_sample(const struct capture_sample *x)
{
    uint64_t hash = hash_mix(((uint64_t)x->tid << 32) | x->label, (uint64_t)x->kind);
    return hash_bytes(x->pcs, x->n * sizeof *x->pcs, hash);
}

static bool same(const struct stacks *s, const struct stack *a, const struct capture_sample *x)
{
    return a->tid == x->tid && a->label == x->label && a->kind == x->kind && a->n == x->n &&
           (x->n == 0 || memcmp(s->pcs + a->first, x->pcs, x->n * sizeof *x->pcs) == 0);
}

static struct str hex(struct arena *arena, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    char *text = arena_alloc(arena, 2 * n + 1);
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    return (struct str){text, 2 * n};
}

static uint16_t find_module(struct stacks *s, uintptr_t pc, const struct unwind_snapshot *snapshot)
{
    const struct unwind_module *m = snapshot ? unwind_snapshot_find(snapshot, pc) : NULL;
    if (!m)
        return STACKS_NO_MODULE;
    struct str path = str_from(m->path);
    // What is loaded where something else was is another module: look from the newest on.
    for (size_t i = s->n_modules; i-- > 0;)
        if (s->modules[i].start == m->start && str_eq(s->modules[i].path, path))
            return (uint16_t)i;
    if (s->n_modules >= STACKS_NO_MODULE)
        return STACKS_NO_MODULE;
    struct stack_module module = {
        .start = m->start,
        .end = m->end,
        .file_offset = m->file_offset,
        .path = {arena_copy(s->arena, path.p, path.n), path.n},
        .build_id = hex(s->arena, m->build_id, m->n_build_id),
    };
    s->modules =
        arena_push(s->arena, s->modules, s->n_modules, &s->cap_modules, sizeof *s->modules);
    s->modules[s->n_modules] = module;
    return (uint16_t)s->n_modules++;
}

void stacks_note_program(struct stacks *s, uintptr_t pc, const struct unwind_snapshot *snapshot)
{
    find_module(s, pc, snapshot);
}

uint32_t stacks_add(struct stacks *s, const struct capture_sample *x,
                    const struct unwind_snapshot *snapshot)
{
    uint64_t hash = hash_sample(x);
    for (struct hash_probe at = hash_find(&s->index, hash); hash_hit(&s->index, &at);
         hash_next(&s->index, &at))
        if (same(s, &s->items[at.item], x))
            return at.item;
    s->items = arena_push(s->arena, s->items, s->n, &s->cap, sizeof *s->items);
    while (s->cap_pcs < s->n_pcs + x->n)
        s->pcs = arena_push(s->arena, s->pcs, s->cap_pcs, &s->cap_pcs, sizeof *s->pcs);
    while (s->cap_pc_modules < s->n_pcs + x->n)
        s->pc_modules = arena_push(s->arena, s->pc_modules, s->cap_pc_modules, &s->cap_pc_modules,
                                   sizeof *s->pc_modules);
    for (size_t i = 0; i < x->n; i++) {
        s->pcs[s->n_pcs + i] = x->pcs[i];
        s->pc_modules[s->n_pcs + i] = find_module(s, x->pcs[i], snapshot);
    }
    hash_add(&s->index, s->arena, hash, (uint32_t)s->n);
    struct stack *stack = &s->items[s->n];
    *stack = (struct stack){
        .first = s->n_pcs,
        .n = (uint32_t)x->n,
        .tid = x->tid,
        .label = x->label,
        .kind = x->kind,
        .truncated = x->kind == CAPTURE_STACK && x->end != UNWIND_END_ROOT,
    };
    memcpy(stack->thread, x->thread, CAPTURE_NAME);
    s->n_pcs += x->n;
    return (uint32_t)s->n++;
}

// --- profiles ---

struct writer {
    const struct stacks *s;
    struct model_builder b;
    uint32_t *mapping_of; // module -> mapping + 1
    uint32_t blocked, unticked, truncated;
};

static uint32_t mapping(struct writer *w, uint16_t module)
{
    if (module == STACKS_NO_MODULE)
        return MODEL_NONE;
    if (!w->mapping_of[module]) {
        const struct stack_module *m = &w->s->modules[module];
        struct model_mapping made = {
            .start = m->start,
            .limit = m->end,
            .offset = m->file_offset,
            .file = model_build_string(&w->b, m->path),
            .build_id = model_build_string(&w->b, m->build_id),
        };
        w->mapping_of[module] = model_build_mapping(&w->b, made) + 1;
    }
    return w->mapping_of[module] - 1;
}

static void write_stack(struct writer *w, const struct stack *stack, const struct weight *weight)
{
    uint32_t frames[CAPTURE_MAX_DEPTH + 1];
    size_t n = 0;
    for (uint32_t i = 0; i < stack->n; i++) {
        uint64_t at = stack->first + i;
        frames[n++] =
            model_build_location(&w->b, mapping(w, w->s->pc_modules[at]), w->s->pcs[at], NULL, 0);
    }
    if (stack->kind == CAPTURE_BLOCKED)
        frames[n++] = model_build_named_location(&w->b, STR("[signals blocked]"));
    else if (stack->kind == CAPTURE_UNTICKED)
        frames[n++] = model_build_named_location(&w->b, STR("[ended before a tick]"));
    else if (stack->truncated)
        frames[n++] = model_build_named_location(&w->b, STR("[truncated]"));
    model_build_label(&w->b, STR("thread"), str_from(stack->thread));
    model_build_number_label(&w->b, STR("thread_id"), stack->tid, STR(""));
    agent_label_build(stack->label, &w->b);
    int64_t values[2] = {(int64_t)weight->ticks, (int64_t)weight->ns};
    model_build_sample(&w->b, frames, n, values);
}

struct model_profile *stacks_profile(const struct stacks *s, const struct weight *weights, size_t n,
                                     uint32_t hz, struct arena *arena)
{
    struct writer w = {.s = s};
    model_build(&w.b, arena);
    model_build_type(&w.b, STR("samples"), STR("count"));
    model_build_type(&w.b, STR("cpu"), STR("nanoseconds"));
    w.b.p->period_type = w.b.p->types[1];
    w.b.p->period = 1000000000u / hz;
    w.mapping_of = arena_array(arena, s->n_modules + 1, sizeof *w.mapping_of);
    // The program itself comes first.
    if (s->n_modules)
        mapping(&w, 0);
    for (size_t i = 0; i < n; i++)
        if (weights[i].ticks)
            write_stack(&w, &s->items[i], &weights[i]);
    return w.b.p;
}
