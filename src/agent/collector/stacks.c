#include "agent/collector/stacks.h"

#include "agent/agent.h"
#include "model/builder.h"

void stacks_init(struct stacks *s, struct arena *arena)
{
    *s = (struct stacks){.arena = arena};
    hash_init(&s->index, arena, 1024);
    hash_init(&s->chain_index, arena, 1024);
    hash_init(&s->thread_index, arena, 64);
    hash_init(&s->ids_index, arena, 64);
    s->ids = arena_push(arena, s->ids, s->n_ids, &s->cap_ids, sizeof *s->ids);
    s->n_ids = 1;
    s->items = arena_push(arena, s->items, s->n, &s->cap, sizeof *s->items);
    s->n = STACKS_DROPPED + 1;
}

// --- modules ---

static bool same_build_id(struct str text, const uint8_t *bytes, size_t n)
{
    if (text.n != 2 * n)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        int digit = c <= '9' ? c - '0' : c - 'a' + 10;
        if (digit != (i % 2 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4))
            return false;
    }
    return true;
}

static struct str copy_stack_text(struct arena *arena, struct str text)
{
    return (struct str){arena_copy(arena, text.p, text.n), text.n};
}

static uint16_t add_stack_module(struct stacks *s, const struct stack_module *module)
{
    struct str path = copy_stack_text(s->arena, module->path);
    struct str build_id = copy_stack_text(s->arena, module->build_id);
    s->modules =
        arena_push(s->arena, s->modules, s->n_modules, &s->cap_modules, sizeof *s->modules);
    struct stack_module *m = &s->modules[s->n_modules];
    *m = *module;
    m->path = path;
    m->build_id = build_id;
    return (uint16_t)s->n_modules++;
}

static uint16_t find_stack_module(struct stacks *s, uintptr_t pc,
                                  const struct unwind_snapshot *snapshot)
{
    const struct unwind_module *m = snapshot ? unwind_snapshot_find(snapshot, pc) : NULL;
    if (!m)
        return STACKS_NO_MODULE;
    struct str path = str_from(m->path);
    // Another module may have been loaded at the same address later, so search the newest first.
    for (size_t i = s->n_modules; i-- > 0;) {
        const struct stack_module *old = &s->modules[i];
        if (old->start == m->start && old->end == m->end && str_eq(old->path, path) &&
            same_build_id(old->build_id, m->build_id, m->n_build_id))
            return (uint16_t)i;
    }
    if (s->n_modules >= STACKS_NO_MODULE)
        return STACKS_NO_MODULE;
    struct stack_module module = {
        .start = m->start,
        .end = m->end,
        .file_offset = m->file_offset,
        .path = path,
        .build_id = str_from(arena_hex(s->arena, m->build_id, m->n_build_id)),
    };
    return add_stack_module(s, &module);
}

void stacks_add_program(struct stacks *s, uintptr_t pc, const struct unwind_snapshot *snapshot)
{
    find_stack_module(s, pc, snapshot);
}

// --- threads, ids, chains ---

uint32_t stacks_add_thread(struct stacks *s, const struct capture_sample *x)
{
    uint64_t hash = hash_mix(x->serial, 0);
    for (struct hash_probe at = hash_find(&s->thread_index, hash); hash_hit(&s->thread_index, &at);
         hash_next(&s->thread_index, &at))
        if (s->threads[at.item].serial == x->serial) {
            if (x->thread[0])
                memcpy(s->threads[at.item].name, x->thread, CAPTURE_NAME);
            return at.item;
        }
    s->threads =
        arena_push(s->arena, s->threads, s->n_threads, &s->cap_threads, sizeof *s->threads);
    hash_add(&s->thread_index, s->arena, hash, (uint32_t)s->n_threads);
    struct stack_thread *t = &s->threads[s->n_threads];
    *t = (struct stack_thread){.serial = x->serial, .tid = x->tid};
    memcpy(t->name, x->thread, CAPTURE_NAME);
    return (uint32_t)s->n_threads++;
}

static uint32_t add_ids(struct stacks *s, const struct capture_ids *ids)
{
    if (!ids)
        return 0;
    uint64_t hash = hash_bytes(ids, sizeof *ids, 0);
    for (struct hash_probe at = hash_find(&s->ids_index, hash); hash_hit(&s->ids_index, &at);
         hash_next(&s->ids_index, &at))
        if (memcmp(&s->ids[at.item], ids, sizeof *ids) == 0)
            return at.item;
    s->ids = arena_push(s->arena, s->ids, s->n_ids, &s->cap_ids, sizeof *s->ids);
    hash_add(&s->ids_index, s->arena, hash, (uint32_t)s->n_ids);
    s->ids[s->n_ids] = *ids;
    return (uint32_t)s->n_ids++;
}

// Reserves space for a chain of n addresses behind the existing ones.
static void reserve_chain(struct stacks *s, size_t n)
{
    s->chains = arena_push(s->arena, s->chains, s->n_chains, &s->cap_chains, sizeof *s->chains);
    while (s->cap_pcs < s->n_pcs + n)
        s->pcs = arena_push(s->arena, s->pcs, s->cap_pcs, &s->cap_pcs, sizeof *s->pcs);
    while (s->cap_pc_modules < s->n_pcs + n)
        s->pc_modules = arena_push(s->arena, s->pc_modules, s->cap_pc_modules, &s->cap_pc_modules,
                                   sizeof *s->pc_modules);
}

static uint64_t hash_chain(const uintptr_t *pcs, size_t n)
{
    return hash_bytes(pcs, n * sizeof *pcs, n);
}

static uint32_t commit_chain(struct stacks *s, size_t n)
{
    hash_add(&s->chain_index, s->arena, hash_chain(s->pcs + s->n_pcs, n), (uint32_t)s->n_chains);
    s->chains[s->n_chains] = (struct stack_chain){s->n_pcs, (uint32_t)n};
    s->n_pcs += n;
    return (uint32_t)s->n_chains++;
}

static uint32_t add_chain(struct stacks *s, const uintptr_t *pcs, size_t n,
                          const struct unwind_snapshot *snapshot)
{
    uint64_t hash = hash_chain(pcs, n);
    for (struct hash_probe at = hash_find(&s->chain_index, hash); hash_hit(&s->chain_index, &at);
         hash_next(&s->chain_index, &at)) {
        const struct stack_chain *c = &s->chains[at.item];
        if (c->n == n && (n == 0 || memcmp(s->pcs + c->first, pcs, n * sizeof *pcs) == 0))
            return at.item;
    }
    reserve_chain(s, n);
    for (size_t i = 0; i < n; i++) {
        s->pcs[s->n_pcs + i] = pcs[i];
        s->pc_modules[s->n_pcs + i] = find_stack_module(s, pcs[i], snapshot);
    }
    return commit_chain(s, n);
}

// --- stacks ---

static uint64_t hash_stack_key(const struct stack *x)
{
    return hash_mix(
        hash_mix((uint64_t)x->chain << 32 | x->thread, (uint64_t)x->label << 32 | x->ids),
        (uint64_t)x->kind << 1 | x->truncated);
}

static bool same_stack_key(const struct stack *a, const struct stack *b)
{
    return a->chain == b->chain && a->thread == b->thread && a->label == b->label &&
           a->ids == b->ids && a->kind == b->kind && a->truncated == b->truncated;
}

static uint32_t add_unique_stack(struct stacks *s, const struct stack *x)
{
    uint64_t hash = hash_stack_key(x);
    for (struct hash_probe at = hash_find(&s->index, hash); hash_hit(&s->index, &at);
         hash_next(&s->index, &at))
        if (same_stack_key(&s->items[at.item], x))
            return at.item;
    s->items = arena_push(s->arena, s->items, s->n, &s->cap, sizeof *s->items);
    hash_add(&s->index, s->arena, hash, (uint32_t)s->n);
    s->items[s->n] = *x;
    return (uint32_t)s->n++;
}

uint32_t stacks_add(struct stacks *s, const struct capture_sample *x, uint32_t thread,
                    const struct unwind_snapshot *snapshot)
{
    struct stack stack = {
        .chain = add_chain(s, x->pcs, x->n, snapshot),
        .thread = thread,
        .label = x->label,
        .ids = add_ids(s, x->ids),
        .kind = (uint8_t)x->kind,
        .truncated = x->kind == CAPTURE_STACK && x->end != UNWIND_END_ROOT,
    };
    return add_unique_stack(s, &stack);
}

// --- dropping stacks ---

// New numbers of a table's parts in another table: number + 1; 0: not copied yet.
struct moves {
    uint32_t *chains, *threads, *modules;
};

static uint16_t move_module(struct stacks *s, const struct stacks *from, uint16_t module,
                            struct moves *moves)
{
    if (module == STACKS_NO_MODULE)
        return module;
    if (!moves->modules[module])
        moves->modules[module] = add_stack_module(s, &from->modules[module]) + 1u;
    return (uint16_t)(moves->modules[module] - 1);
}

static uint32_t move_chain(struct stacks *s, const struct stacks *from, uint32_t chain,
                           struct moves *moves)
{
    if (!moves->chains[chain]) {
        const struct stack_chain *c = &from->chains[chain];
        reserve_chain(s, c->n);
        for (uint32_t i = 0; i < c->n; i++) {
            s->pcs[s->n_pcs + i] = from->pcs[c->first + i];
            s->pc_modules[s->n_pcs + i] =
                move_module(s, from, from->pc_modules[c->first + i], moves);
        }
        moves->chains[chain] = commit_chain(s, c->n) + 1;
    }
    return moves->chains[chain] - 1;
}

static uint32_t move_thread(struct stacks *s, const struct stacks *from, uint32_t thread,
                            struct moves *moves)
{
    if (!moves->threads[thread]) {
        const struct stack_thread *t = &from->threads[thread];
        struct capture_sample x = {.serial = t->serial, .tid = t->tid, .thread = t->name};
        moves->threads[thread] = stacks_add_thread(s, &x) + 1;
    }
    return moves->threads[thread] - 1;
}

// Arrays that grow leave their old copies in the arena, so allocate them at full size.
static void reserve_kept(struct stacks *s, const struct stacks *from, const bool *keep)
{
    bool *counted = arena_array(s->arena, from->n_chains + 1, sizeof *counted);
    size_t n = 0, pcs = 0;
    for (size_t i = STACKS_DROPPED + 1; i < from->n; i++) {
        uint32_t chain = from->items[i].chain;
        n += keep[i];
        if (keep[i] && !counted[chain])
            pcs += from->chains[chain].n;
        counted[chain] |= keep[i];
    }
    s->cap = s->n + n + n / 4 + 1;
    s->cap_pcs = s->cap_pc_modules = pcs + pcs / 4 + 1;
    s->items = arena_array(s->arena, s->cap, sizeof *s->items);
    s->pcs = arena_array(s->arena, s->cap_pcs, sizeof *s->pcs);
    s->pc_modules = arena_array(s->arena, s->cap_pc_modules, sizeof *s->pc_modules);
}

void stacks_copy(struct stacks *s, const struct stacks *from, const bool *keep, uint32_t *to)
{
    struct moves moves = {
        .chains = arena_array(s->arena, from->n_chains + 1, sizeof *moves.chains),
        .threads = arena_array(s->arena, from->n_threads + 1, sizeof *moves.threads),
        .modules = arena_array(s->arena, from->n_modules + 1, sizeof *moves.modules),
    };
    reserve_kept(s, from, keep);
    // The program itself stays the first module.
    if (from->n_modules)
        move_module(s, from, 0, &moves);
    for (size_t i = STACKS_DROPPED + 1; i < from->n; i++) {
        if (!keep[i])
            continue;
        struct stack x = from->items[i];
        x.chain = move_chain(s, from, x.chain, &moves);
        x.thread = move_thread(s, from, x.thread, &moves);
        x.ids = add_ids(s, x.ids ? &from->ids[x.ids] : NULL);
        to[i] = add_unique_stack(s, &x);
    }
}

// --- profiles ---

struct writer {
    bool threads; // add thread labels
    const struct stacks *s;
    struct model_builder b;
    uint32_t *mapping_of; // module -> mapping + 1
};

static uint32_t module_mapping(struct writer *w, uint16_t module)
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

static void label_hex(struct writer *w, struct str key, const void *bytes, size_t n)
{
    char text[2 * sizeof(struct capture_ids)];
    const uint8_t *p = bytes;
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any |= p[i] != 0;
    str_hex(text, p, n);
    if (any)
        model_build_label(&w->b, key, (struct str){text, 2 * n});
}

static void write_dropped_sample(struct writer *w, const struct weight *weight)
{
    uint32_t frame = model_build_named_location(&w->b, STR("[dropped]"));
    int64_t values[2] = {(int64_t)weight->ticks, (int64_t)weight->ns};
    model_build_weighed_sample(&w->b, &frame, 1, values, (double)weight->squares);
}

static void write_stack_sample(struct writer *w, const struct stack *stack,
                               const struct weight *weight)
{
    uint32_t frames[CAPTURE_MAX_DEPTH + 1];
    size_t n = 0;
    const struct stack_chain *chain = &w->s->chains[stack->chain];
    if (stack->kind == CAPTURE_UNTICKED)
        frames[n++] = model_build_named_location(&w->b, STR("[ended before a tick]"));
    for (uint32_t i = 0; i < chain->n; i++) {
        uint64_t at = chain->first + i;
        frames[n++] = model_build_location(&w->b, module_mapping(w, w->s->pc_modules[at]),
                                           w->s->pcs[at], NULL, 0);
    }
    if (stack->kind == CAPTURE_BLOCKED)
        frames[n++] = model_build_named_location(&w->b, STR("[signals blocked]"));
    else if (stack->kind == CAPTURE_UNSAMPLED)
        frames[n++] = model_build_named_location(&w->b, STR("[threads starting and ending]"));
    else if (stack->truncated)
        frames[n++] = model_build_named_location(&w->b, STR("[truncated]"));
    const struct stack_thread *thread = &w->s->threads[stack->thread];
    if (w->threads && stack->kind != CAPTURE_UNSAMPLED) {
        model_build_label(&w->b, STR("thread"), str_from(thread->name));
        model_build_number_label(&w->b, STR("thread_id"), thread->tid, STR(""));
    }
    agent_label_build(stack->label, &w->b);
    if (stack->ids) {
        const struct capture_ids *ids = &w->s->ids[stack->ids];
        label_hex(w, STR("trace_id"), ids->trace, sizeof ids->trace);
        label_hex(w, STR("span_id"), &ids->span, sizeof ids->span);
    }
    int64_t values[2] = {(int64_t)weight->ticks, (int64_t)weight->ns};
    model_build_weighed_sample(&w->b, frames, n, values, (double)weight->squares);
}

struct model_profile *stacks_profile(const struct stacks *s, const struct weight *weights, size_t n,
                                     uint32_t hz, bool threads, struct arena *arena)
{
    struct writer w = {.s = s, .threads = threads};
    model_build(&w.b, arena);
    model_build_type(&w.b, STR("samples"), STR("count"));
    model_build_type(&w.b, STR("cpu"), STR("nanoseconds"));
    w.b.p->period_type = w.b.p->types[1];
    w.b.p->period = 1000000000u / hz;
    w.mapping_of = arena_array(arena, s->n_modules + 1, sizeof *w.mapping_of);
    // The program itself must be the first mapping.
    if (s->n_modules)
        module_mapping(&w, 0);
    if (n && weights[STACKS_DROPPED].ticks)
        write_dropped_sample(&w, &weights[STACKS_DROPPED]);
    for (size_t i = STACKS_DROPPED + 1; i < n; i++)
        if (weights[i].ticks)
            write_stack_sample(&w, &s->items[i], &weights[i]);
    return w.b.p;
}
