#include "server/ingest_go.h"

#include <endian.h>
#include <stdlib.h>

enum {
    TOKEN = 16,              // frames that must be common
    SHIFTS = 8,              // by which two stacks may differ
    SUFFIX = TOKEN + SHIFTS, // frames that a stack needs
    CHAIN_MAX = 56,          // stacks completed by one another
    HEAP_DEPTH = 32,
    CPU_DEPTH = 64,
    SHORT = 4, // some cut stacks have a few frames less
};

// --- which language ---

bool ingest_is_go(const struct model_profile *p, const struct store_label *labels, size_t n)
{
    static const char *const others[] = {"dotnetspy", "phpspy",  "pyspy",  "rbspy",
                                         "nodespy",   "javaspy", "ebpfspy"};
    static const struct {
        struct str text;
        bool go;
    } signs[] = {{STR(".go"), true},
                 {STR("/usr/local/go/"), true},
                 {STR("java/"), false},
                 {STR("sun/"), false},
                 {STR(".rb"), false},
                 {STR("gems/"), false},
                 {STR("./node_modules/"), false},
                 {STR(".js"), false},
                 {STR("System."), false},
                 {STR("Microsoft."), false},
                 {STR(".py"), false},
                 {STR("main.rs"), false},
                 {STR("core.rs"), false}};
    for (size_t i = 0; i < n; i++) {
        if (!str_eq(labels[i].name, STR("pyroscope_spy")))
            continue;
        if (str_eq(labels[i].value, STR("gospy")))
            return true;
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            if (str_eq(labels[i].value, str_from(others[k])))
                return false;
    }
    // By a string's first and last bytes: a bit for each sign that it may begin or end with.
    uint16_t first[256] = {0}, last[256] = {0};
    for (size_t k = 0; k < sizeof signs / sizeof *signs; k++) {
        first[(unsigned char)signs[k].text.p[0]] |= (uint16_t)(1u << k);
        last[(unsigned char)signs[k].text.p[signs[k].text.n - 1]] |= (uint16_t)(1u << k);
    }
    for (size_t i = 0; i < p->strings->n; i++) {
        struct str s = p->strings->items[i];
        unsigned may = s.n ? first[(unsigned char)s.p[0]] | last[(unsigned char)s.p[s.n - 1]] : 0u;
        for (; may; may &= may - 1) {
            unsigned k = (unsigned)__builtin_ctz(may);
            if (str_starts(s, signs[k].text) || str_ends(s, signs[k].text))
                return signs[k].go;
        }
    }
    return false;
}

// --- type parameters ---

// Without every [go.shape....], brackets counted.
static struct str drop_parameters(struct str s, struct arena *arena)
{
    const struct str mark = STR("[go.shape.");
    size_t at = str_find(s, mark, 0), from = 0, n = 0;
    if (at == SIZE_MAX)
        return s;
    char *text = arena_alloc(arena, s.n + 1);
    while (at != SIZE_MAX) {
        size_t end = at, depth = 0;
        do {
            depth += s.p[end] == '[';
            depth -= s.p[end] == ']';
            end++;
        } while (depth && end < s.n);
        if (depth)
            break;
        memcpy(text + n, s.p + from, at - from);
        n += at - from;
        from = end;
        at = str_find(s, mark, from);
    }
    memcpy(text + n, s.p + from, s.n - from);
    return (struct str){text, n + s.n - from};
}

// --- cut stacks ---

struct deep {
    size_t sample;
    uint64_t ids[SUFFIX]; // of the outermost locations, the root last, little-endian
};

struct token {
    const uint64_t *ids;
    uint32_t group, shift;
};

struct link {
    uint32_t group, shift; // group: plus one; 0: none
};

struct repair {
    struct arena *arena;
    struct deep *deep;
    size_t n_deep;
    uint32_t *groups; // where in deep each begins
    uint32_t n_groups;
    struct token *tokens;
    size_t n_tokens, cap_tokens;
    struct hash_table index;
};

static bool has_go_type(const struct model_profile *p, const char *const *names)
{
    for (uint32_t i = 0; i < p->n_types; i++)
        for (size_t k = 0; names[k]; k++)
            if (str_eq(model_str(p, p->types[i].type), str_from(names[k])))
                return true;
    return false;
}

static bool may_be_cut(const struct model_profile *p)
{
    static const char *const heap[] = {"alloc_objects", "alloc_space", "inuse_objects",
                                       "inuse_space", NULL};
    static const char *const cpu[] = {"cpu", NULL};
    bool is_heap = has_go_type(p, heap), deep = false;
    if (!is_heap && !has_go_type(p, cpu))
        return false;
    uint32_t limit = is_heap ? HEAP_DEPTH : CPU_DEPTH;
    for (size_t i = 0; i < p->n_samples; i++) {
        deep |= p->stack_len[i] >= limit - SHORT;
        if (is_heap && p->stack_len[i] > limit) // Go 1.23 and later
            return false;
    }
    return deep;
}

static int by_suffix(const void *a, const void *b)
{
    const struct deep *x = a, *y = b;
    return memcmp(x->ids, y->ids, sizeof x->ids);
}

static void collect_deep_samples(struct repair *r, const struct model_profile *p)
{
    for (size_t i = 0; i < p->n_samples; i++)
        r->n_deep += p->stack_len[i] >= SUFFIX;
    r->deep = arena_array(r->arena, r->n_deep + 1, sizeof *r->deep);
    size_t n = 0;
    for (size_t i = 0; i < p->n_samples; i++) {
        if (p->stack_len[i] < SUFFIX)
            continue;
        const uint32_t *outer = p->stacks[i] + p->stack_len[i] - SUFFIX;
        for (int k = 0; k < SUFFIX; k++)
            r->deep[n].ids[k] = htole64(p->locations[outer[k]].id);
        r->deep[n++].sample = i;
    }
    qsort(r->deep, n, sizeof *r->deep, by_suffix);
    r->groups = arena_array(r->arena, n + 1, sizeof *r->groups);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || by_suffix(&r->deep[i], &r->deep[i - 1]))
            r->groups[r->n_groups++] = (uint32_t)i;
}

static struct token *find_token(struct repair *r, const uint64_t *ids, uint64_t *hash)
{
    *hash = hash_bytes(ids, TOKEN * sizeof *ids, 0);
    for (struct hash_probe at = hash_find(&r->index, *hash); hash_hit(&r->index, &at);
         hash_next(&r->index, &at))
        if (memcmp(r->tokens[at.item].ids, ids, TOKEN * sizeof *ids) == 0)
            return &r->tokens[at.item];
    return NULL;
}

// The end of a group as Pyroscope counts it: of the last one it takes the number of groups.
static int64_t group_end(const struct repair *r, uint32_t group)
{
    return group + 1 < r->n_groups ? r->groups[group + 1] : r->n_groups;
}

// For every run of frames inside a suffix: the group that has it furthest from the root.
static void index_tokens(struct repair *r)
{
    hash_init(&r->index, r->arena, (size_t)r->n_groups * SHIFTS);
    for (uint32_t i = 0; i < r->n_groups; i++) {
        if (group_end(r, i) - r->groups[i] < 1)
            continue;
        for (uint32_t shift = 1; shift <= SHIFTS; shift++) {
            const uint64_t *ids = r->deep[r->groups[i]].ids + SUFFIX - shift - TOKEN;
            uint64_t hash;
            struct token *t = find_token(r, ids, &hash);
            if (!t) {
                r->tokens =
                    arena_push(r->arena, r->tokens, r->n_tokens, &r->cap_tokens, sizeof *r->tokens);
                hash_add(&r->index, r->arena, hash, (uint32_t)r->n_tokens);
                r->tokens[r->n_tokens++] = (struct token){ids, i + 1, shift};
            } else if (shift > t->shift) {
                t->group = i + 1;
                t->shift = shift;
            }
        }
    }
}

static void append_go_frames(struct repair *r, struct model_profile *p, size_t sample,
                             const uint32_t *more, uint32_t n)
{
    uint32_t len = p->stack_len[sample];
    uint32_t *stack = arena_array(r->arena, (size_t)len + n, sizeof *stack);
    memcpy(stack, p->stacks[sample], len * sizeof *stack);
    memcpy(stack + len, more, n * sizeof *stack);
    p->stacks[sample] = stack;
    p->stack_len[sample] = len + n;
}

static void complete_go_stacks(struct repair *r, struct model_profile *p)
{
    struct link *links = arena_array(r->arena, (size_t)r->n_groups + 1, sizeof *links);
    for (uint32_t i = 0; i < r->n_groups; i++) {
        uint64_t hash;
        struct token *t = find_token(r, r->deep[r->groups[i]].ids + SHIFTS, &hash);
        if (t && t->group - 1 != i)
            links[i] = (struct link){t->group, t->shift};
    }
    for (uint32_t i = 0; i < r->n_groups; i++) {
        struct link at = links[i];
        uint32_t shift = 0;
        for (int chain = 0; at.group && at.shift;) {
            shift += at.shift;
            struct link next = links[at.group - 1];
            if (!next.group)
                break;
            at = next;
            if (++chain == CHAIN_MAX)
                return;
        }
        if (!shift)
            continue;
        size_t whole = r->deep[r->groups[at.group - 1]].sample;
        if (shift >= p->stack_len[whole])
            continue;
        const uint32_t *more = p->stacks[whole] + p->stack_len[whole] - shift;
        for (int64_t k = r->groups[i]; k < group_end(r, i); k++)
            append_go_frames(r, p, r->deep[k].sample, more, shift);
    }
}

void ingest_fix_go(struct model_profile *p, struct arena *arena)
{
    for (size_t i = 0; i < p->strings->n; i++)
        p->strings->items[i] = drop_parameters(p->strings->items[i], arena);
    if (!may_be_cut(p))
        return;
    struct repair r = {.arena = arena};
    collect_deep_samples(&r, p);
    index_tokens(&r);
    complete_go_stacks(&r, p);
}
