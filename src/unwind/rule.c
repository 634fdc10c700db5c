#include "unwind/rule.h"

#include "process/memory.h"

// One mapping with room for the maximum: untouched pages take no memory.
struct layout {
    struct unwind_rules rules;
    _Alignas(16) unwind_rule rule[UNWIND_RULES_MAX];
    uint8_t pool[UNWIND_POOL_MAX];
};

static uint32_t hash_rule(unwind_rule rule)
{
    return (uint32_t)((rule ^ rule >> 29) * 0x9e3779b97f4a7c15u >> 32);
}

static void rule_hash_insert(struct unwind_rules *rules, uint16_t id)
{
    uint32_t at = hash_rule(rules->rule[id]);
    while (rules->hash[at & (rules->n_hash - 1)])
        at++;
    rules->hash[at & (rules->n_hash - 1)] = id;
}

static bool rule_hash_grow(struct unwind_rules *rules, uint32_t n)
{
    uint16_t *hash = process_map(n * sizeof *hash);
    if (!hash)
        return false;
    process_unmap(rules->hash, rules->n_hash * sizeof *hash);
    rules->hash = hash;
    rules->n_hash = n;
    for (uint32_t id = UNWIND_RULE_SIGNAL + 1; id < rules->n; id++)
        rule_hash_insert(rules, (uint16_t)id);
    return true;
}

struct unwind_rules *unwind_rules_new(void)
{
    struct layout *l = process_map(sizeof *l);
    if (!l)
        return NULL;
    struct unwind_rules *rules = &l->rules;
    rules->rule = l->rule;
    rules->pool = l->pool;
    rules->refs = 1;
    for (rules->n = 0; rules->n <= UNWIND_RULE_SIGNAL; rules->n++)
        rules->rule[rules->n] = rules->n;
    if (!rule_hash_grow(rules, 2048)) {
        process_unmap(l, sizeof *l);
        return NULL;
    }
    return rules;
}

void unwind_rules_free(struct unwind_rules *rules)
{
    if (!rules || atomic_fetch_sub(&rules->refs, 1) != 1)
        return;
    process_unmap(rules->hash, rules->n_hash * sizeof *rules->hash);
    process_unmap(rules, sizeof(struct layout));
}

size_t unwind_rules_bytes(const struct unwind_rules *rules)
{
    return sizeof *rules + rules->n * sizeof *rules->rule + rules->n_pool +
           rules->n_hash * sizeof *rules->hash;
}

static uint16_t intern_rule(struct unwind_rules *rules, unwind_rule rule)
{
    uint32_t at = hash_rule(rule);
    for (;; at++) {
        uint16_t id = rules->hash[at & (rules->n_hash - 1)];
        if (!id)
            break;
        if (rules->rule[id] == rule)
            return id;
    }
    if (rules->n == UNWIND_RULES_MAX ||
        (rules->n * 2 >= rules->n_hash && !rule_hash_grow(rules, rules->n_hash * 2)))
        return UNWIND_RULE_UNSUPPORTED;
    rules->rule[rules->n] = rule;
    rule_hash_insert(rules, (uint16_t)rules->n);
    return (uint16_t)rules->n++;
}

// Copies an expression to the end of the pool. Returns its offset, or -1.
static int32_t add_pool_expression(struct unwind_rules *rules, uint32_t *end, const uint8_t *base,
                                   size_t n, int32_t place)
{
    struct reader x;
    if (!cfi_expression_at(base, n, place, &x))
        return -1;
    uint16_t length = (uint16_t)reader_left(&x);
    if (*end + 2u + length > UNWIND_POOL_MAX)
        return -1;
    uint32_t at = *end;
    memcpy(rules->pool + at, &length, 2);
    memcpy(rules->pool + at + 2, x.p, length);
    *end = (at + 2u + length + 3u) & ~3u;
    return (int32_t)at;
}

static bool expressions_equal(const struct unwind_rules *rules, int32_t a, int32_t b)
{
    uint16_t na, nb;
    memcpy(&na, rules->pool + a, 2);
    memcpy(&nb, rules->pool + b, 2);
    return na == nb && memcmp(rules->pool + a + 2, rules->pool + b + 2, na) == 0;
}

static bool generals_equal(const struct unwind_rules *rules, const struct unwind_general *a,
                           const struct unwind_general *b)
{
    if (a->n != b->n || a->signal != b->signal || a->cfa_expression != b->cfa_expression ||
        a->cfa_register != b->cfa_register)
        return false;
    if (a->cfa_expression ? !expressions_equal(rules, a->cfa_value, b->cfa_value)
                          : a->cfa_value != b->cfa_value)
        return false;
    for (unsigned i = 0; i < a->n; i++) {
        const struct unwind_general_item *x = &a->item[i], *y = &b->item[i];
        if (x->reg != y->reg || x->how != y->how)
            return false;
        bool expression = x->how == CFI_EXPRESSION || x->how == CFI_VAL_EXPRESSION;
        if (expression ? !expressions_equal(rules, x->value, y->value) : x->value != y->value)
            return false;
    }
    return true;
}

// Adds a rule in long form, unless an equal one exists. There are few, so a linear search is cheap.
static uint16_t add_general_rule(struct unwind_rules *rules, const struct cfi_state *state,
                                 const uint8_t *base, size_t n, bool signal)
{
    uint32_t end = rules->n_pool;
    _Alignas(8) uint8_t made[sizeof(struct unwind_general) +
                             UNWIND_REGS * sizeof(struct unwind_general_item)] = {0};
    struct unwind_general *g = (void *)made;
    g->signal = signal;
    g->cfa_expression = state->cfa_expression;
    if (state->cfa_expression) {
        g->cfa_value = add_pool_expression(rules, &end, base, n, state->cfa_value);
        if (g->cfa_value < 0)
            return UNWIND_RULE_UNSUPPORTED;
    } else {
        if (state->cfa_register >= UNWIND_REGS)
            return UNWIND_RULE_UNSUPPORTED;
        g->cfa_register = state->cfa_register;
        g->cfa_value = state->cfa_value;
    }
    for (unsigned reg = 0; reg < UNWIND_REGS; reg++) {
        if (state->how[reg] == CFI_SAME)
            continue;
        struct unwind_general_item *item = &g->item[g->n++];
        item->reg = (uint8_t)reg;
        item->how = state->how[reg];
        item->value = state->value[reg];
        if (item->how == CFI_EXPRESSION || item->how == CFI_VAL_EXPRESSION) {
            item->value = add_pool_expression(rules, &end, base, n, item->value);
            if (item->value < 0)
                return UNWIND_RULE_UNSUPPORTED;
        }
    }
    g->size = (uint16_t)(sizeof *g + g->n * sizeof *g->item);

    for (uint32_t id = UNWIND_RULE_SIGNAL + 1; id < rules->n; id++)
        if (unwind_rule_kind(rules->rule[id]) == UNWIND_GENERAL) {
            const void *old = rules->pool + unwind_rule_cfa(rules->rule[id]);
            if (generals_equal(rules, old, g))
                return (uint16_t)id;
        }
    if (end + g->size > UNWIND_POOL_MAX)
        return UNWIND_RULE_UNSUPPORTED;
    memcpy(rules->pool + end, g, g->size);
    uint16_t id = intern_rule(rules, unwind_rule_make(UNWIND_GENERAL, (int32_t)end, 0, 0));
    if (id != UNWIND_RULE_UNSUPPORTED)
        rules->n_pool = (end + g->size + 3u) & ~3u;
    return id;
}

uint16_t unwind_rules_add(struct unwind_rules *rules, const struct cfi_state *state,
                          const uint8_t *base, size_t n, bool signal)
{
    unwind_rule rule = unwind_rule_reduce(state, base, n, signal);
    if (unwind_rule_kind(rule) <= UNWIND_SIGNAL)
        return (uint16_t)unwind_rule_kind(rule);
    if (unwind_rule_kind(rule) == UNWIND_GENERAL)
        return add_general_rule(rules, state, base, n, signal);
    return intern_rule(rules, rule);
}
