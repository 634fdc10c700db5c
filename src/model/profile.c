#include "model/profile.h"

struct model_strings *model_strings_new(struct arena *arena)
{
    struct model_strings *s = arena_alloc(arena, sizeof *s);
    s->arena = arena;
    hash_init(&s->index, arena, 256);
    model_intern_borrowed(s, STR(""));
    return s;
}

static uint32_t find_interned(const struct model_strings *s, struct str text, uint64_t hash)
{
    for (struct hash_probe at = hash_find(&s->index, hash); hash_hit(&s->index, &at);
         hash_next(&s->index, &at))
        if (str_eq(s->items[at.item], text))
            return at.item;
    return MODEL_NONE;
}

uint32_t model_find_string(const struct model_strings *s, struct str text)
{
    return find_interned(s, text, hash_bytes(text.p, text.n, 0));
}

static uint32_t add_interned(struct model_strings *s, struct str text, uint64_t hash)
{
    if (s->n >= MODEL_NONE)
        arena_fail(s->arena, "more than 2^32 distinct strings");
    s->items = arena_push(s->arena, s->items, s->n, &s->cap, sizeof *s->items);
    s->items[s->n] = text;
    hash_add(&s->index, s->arena, hash, (uint32_t)s->n);
    return (uint32_t)s->n++;
}

void model_strings_expect(struct model_strings *s, size_t n)
{
    struct hash_table larger;
    hash_init(&larger, s->arena, n);
    if (larger.mask <= s->index.mask)
        return;
    for (size_t i = 0; i < s->n; i++)
        hash_add(&larger, s->arena, hash_bytes(s->items[i].p, s->items[i].n, 0), (uint32_t)i);
    s->index = larger;
}

uint32_t model_intern_borrowed(struct model_strings *s, struct str text)
{
    uint64_t hash = hash_bytes(text.p, text.n, 0);
    uint32_t id = find_interned(s, text, hash);
    return id != MODEL_NONE ? id : add_interned(s, text, hash);
}

uint32_t model_intern(struct model_strings *s, struct str text)
{
    uint64_t hash = hash_bytes(text.p, text.n, 0);
    uint32_t id = find_interned(s, text, hash);
    if (id != MODEL_NONE)
        return id;
    return add_interned(s, (struct str){arena_copy(s->arena, text.p, text.n), text.n}, hash);
}

struct model_profile *model_profile_new(struct arena *arena)
{
    struct model_profile *p = arena_alloc(arena, sizeof *p);
    p->arena = arena;
    p->strings = model_strings_new(arena);
    // Allocate columns even if they stay empty, because pointer arithmetic with NULL is undefined.
    p->lines = arena_alloc(arena, sizeof *p->lines);
    p->labels = arena_alloc(arena, sizeof *p->labels);
    p->values = arena_alloc(arena, sizeof *p->values);
    return p;
}

struct model_profile *model_profile_derive(const struct model_profile *p, struct arena *arena)
{
    struct model_profile *copy = arena_alloc(arena, sizeof *copy);
    *copy = *p;
    copy->arena = arena;
    return copy;
}

static int find_type_name(const struct model_profile *p, struct str name)
{
    for (uint32_t i = 0; i < p->n_types; i++)
        if (str_eq(model_str(p, p->types[i].type), name))
            return (int)i;
    return -1;
}

int model_type_index(const struct model_profile *p, struct str text, struct err *e)
{
    if (text.n == 0) {
        int found = p->default_type ? find_type_name(p, model_str(p, p->default_type)) : -1;
        return found >= 0 ? found : (int)p->n_types - 1;
    }
    int64_t number;
    if (str_to_i64(text, &number)) {
        if (number >= 0 && number < p->n_types)
            return (int)number;
        return err_set(e, "sample_index %.*s is outside the range [0..%d]", (int)text.n, text.p,
                       (int)p->n_types - 1);
    }
    struct str bare = str_starts(text, STR("inuse_")) ? str_from_to(text, 6, text.n) : text;
    for (uint32_t i = 0; i < p->n_types; i++) {
        struct str type = model_str(p, p->types[i].type);
        if (str_eq(type, text) || str_eq(type, bare))
            return (int)i;
    }
    err_set(e, "]");
    for (uint32_t i = p->n_types; i-- > 0;) {
        struct str type = model_str(p, p->types[i].type);
        err_prefix(e, "%s%.*s", i ? " " : "", (int)(type.n < 64 ? type.n : 64), type.p);
    }
    return err_prefix(e, "sample_index \"%.*s\" must be one of: [",
                      (int)(text.n < 64 ? text.n : 64), text.p);
}

static const char *add_id(struct hash_table *seen, struct arena *arena, const uint64_t *ids,
                          uint32_t index)
{
    uint64_t id = ids[index];
    if (id == 0)
        return "reserved";
    uint64_t hash = hash_mix(id, 1);
    for (struct hash_probe at = hash_find(seen, hash); hash_hit(seen, &at); hash_next(seen, &at))
        if (ids[at.item] == id)
            return "twice";
    hash_add(seen, arena, hash, index);
    return NULL;
}

static int check_ids(const struct model_profile *p, const char *what,
                     uint64_t (*id_of)(const struct model_profile *, uint32_t), uint32_t n,
                     struct err *e)
{
    // In the usual case ids increase, and no table is needed.
    uint64_t last = 0;
    uint32_t i = 0;
    for (; i < n && id_of(p, i) > last; i++)
        last = id_of(p, i);
    if (i == n)
        return 0;
    struct arena *arena = arena_new_in(arena_budget(p->arena), 0);
    if (!arena)
        return err_set(e, "out of memory");
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        arena_free(arena);
        return -1;
    }
    uint64_t *ids = arena_array(arena, n, sizeof *ids);
    struct hash_table seen;
    hash_init(&seen, arena, n);
    const char *wrong = NULL;
    for (i = 0; i < n && !wrong; i++) {
        ids[i] = id_of(p, i);
        wrong = add_id(&seen, arena, ids, i);
    }
    int result = 0;
    if (wrong && *wrong == 'r')
        result = err_set(e, "malformed profile: found %s with reserved ID=0", what);
    else if (wrong)
        result = err_set(e, "malformed profile: multiple %ss with same id: %llu", what,
                         (unsigned long long)ids[i - 1]);
    arena_free(arena);
    return result;
}

static uint64_t mapping_id(const struct model_profile *p, uint32_t i)
{
    return p->mappings[i].id;
}

static uint64_t function_id(const struct model_profile *p, uint32_t i)
{
    return p->functions[i].id;
}

static uint64_t location_id(const struct model_profile *p, uint32_t i)
{
    return p->locations[i].id;
}

int model_check(const struct model_profile *p, struct err *e)
{
    if (p->n_types == 0 && p->n_samples != 0)
        return err_set(e, "malformed profile: missing sample type information");
    if (check_ids(p, "mapping", mapping_id, p->n_mappings, e) ||
        check_ids(p, "function", function_id, p->n_functions, e) ||
        check_ids(p, "location", location_id, p->n_locations, e))
        return -1;
    return 0;
}
