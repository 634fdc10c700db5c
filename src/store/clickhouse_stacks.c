// Stacks by their numbers. The stacks of a service that queries have needed are cached as one tree,
// to which a merge adds its sums. When memory is short, the least recently used services are
// evicted.
#include <stdlib.h>

#include "store/clickhouse.h"

// Above this many ids, query all of the service.
enum { IDS_MAX = 100000 };

static void cache_free(struct stacks_cache *s)
{
    symbols_free(s->symbols);
    free(s->names);
    pthread_mutex_destroy(&s->use);
    free(s);
}

static struct stacks_cache *cache_new(struct str tenant, struct str service)
{
    struct stacks_cache *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->use, NULL);
    s->names = malloc(tenant.n + service.n + 1);
    if (s->names) {
        s->tenant = (struct str){s->names, tenant.n};
        s->service = (struct str){s->names + tenant.n, service.n};
        memcpy(s->names, tenant.p, tenant.n);
        memcpy(s->names + tenant.n, service.p, service.n);
    }
    s->symbols = symbols_new(0);
    if (!s->symbols || !s->names) {
        cache_free(s);
        return NULL;
    }
    return s;
}

int stacks_take(struct clickhouse *c, struct str tenant, struct str service, struct budget *budget,
                struct stacks_cache **cache, struct err *e)
{
    pthread_mutex_lock(&c->lock);
    struct stacks_cache *s = c->caches;
    while (s && (s->expired || !str_eq(s->service, service) || !str_eq(s->tenant, tenant)))
        s = s->next;
    if (!s && (s = cache_new(tenant, service))) {
        s->next = c->caches;
        c->caches = s;
    }
    if (s) {
        s->users++;
        s->used = ++c->cache_tick;
    }
    pthread_mutex_unlock(&c->lock);
    *cache = s;
    if (!s) {
        err_set(e, "no memory for stacks");
        return STORE_BUSY;
    }
    if (budget_lock(budget, &s->use) == 0)
        return 0;
    pthread_mutex_lock(&c->lock);
    s->users--;
    pthread_mutex_unlock(&c->lock);
    budget_explain(budget, e);
    return STORE_BUSY;
}

void stacks_give(struct clickhouse *c, struct stacks_cache *s)
{
    size_t size = symbols_size(s->symbols);
    bool broken = s->half_added;
    pthread_mutex_unlock(&s->use);
    pthread_mutex_lock(&c->lock);
    s->size = size;
    s->users--;
    s->expired |= broken;
    for (;;) {
        size_t bytes = 0;
        struct stacks_cache **oldest = NULL;
        for (struct stacks_cache **at = &c->caches; *at; at = &(*at)->next) {
            bytes += (*at)->size;
            if ((*at)->users == 0 && (!oldest || (*at)->expired ||
                                      (!(*oldest)->expired && (*at)->used < (*oldest)->used)))
                oldest = at;
        }
        if (!oldest || (bytes <= c->options.memory / 8 * 3 && !(*oldest)->expired))
            break;
        struct stacks_cache *old = *oldest;
        *oldest = old->next;
        cache_free(old);
    }
    pthread_mutex_unlock(&c->lock);
}

void stacks_expire(struct clickhouse *c)
{
    pthread_mutex_lock(&c->lock);
    for (struct stacks_cache **at = &c->caches; *at;) {
        struct stacks_cache *s = *at;
        s->expired = true;
        if (s->users == 0) {
            *at = s->next;
            cache_free(s);
        } else {
            at = &s->next;
        }
    }
    pthread_mutex_unlock(&c->lock);
}

void stacks_forget(struct clickhouse *c)
{
    while (c->caches) {
        struct stacks_cache *s = c->caches;
        c->caches = s->next;
        cache_free(s);
    }
}

uint32_t stacks_node(const struct stacks_cache *s, uint64_t number)
{
    if (!s->index.slots)
        return UINT32_MAX;
    for (struct hash_probe at = hash_find(&s->index, hash_mix(number, 0)); hash_hit(&s->index, &at);
         hash_next(&s->index, &at))
        if (s->numbers[at.item] == number)
            return s->nodes[at.item];
    return UINT32_MAX;
}

// --- missing stacks ---

struct fetching {
    struct clickhouse *c;
    struct stacks_cache *s;
    struct arena *arena;
    uint32_t first_day, last_day;
    struct model_builder b;
    struct symbols_ids ids;  // of b's symbols
    struct hash_table index; // of locations, by id
    struct id *location_ids;
    uint32_t *locations;
    size_t n_locations, cap_ids, cap_locations;
    uint32_t *flags; // of b's mappings
    size_t cap_flags;
};

static void select_rows(struct fetching *f, struct out *sql, const char *what, const char *table)
{
    out_init_arena(sql, f->arena);
    out_printf(sql,
               "SELECT %s FROM %s.%s WHERE day >= toDate(%u) AND day <= toDate(%u) AND tenant = ",
               what, f->c->at.database, table, f->first_day, f->last_day);
    sql_text(sql, f->s->tenant);
    out_text(sql, " AND service = ");
    sql_text(sql, f->s->service);
}

static uint32_t fetched_mapping(struct fetching *f, const struct symbols_mapping *m, uint32_t file,
                                uint32_t build_id)
{
    struct model_profile *p = f->b.p;
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct model_mapping *o = &p->mappings[i];
        if (o->file == file && o->build_id == build_id && o->offset == m->offset &&
            o->limit - o->start == m->size && f->flags[i] == m->flags &&
            (!(m->flags & SYMBOLS_FIXED) || o->start == m->start))
            return i;
    }
    f->flags = arena_push(f->arena, f->flags, p->n_mappings, &f->cap_flags, sizeof *f->flags);
    f->flags[p->n_mappings] = m->flags;
    return model_build_mapping(
        &f->b, (struct model_mapping){.start = m->start,
                                      .limit = m->start + m->size,
                                      .offset = m->offset,
                                      .file = file,
                                      .build_id = build_id,
                                      .has_functions = m->flags & SYMBOLS_HAS_FUNCTIONS,
                                      .has_filenames = m->flags & SYMBOLS_HAS_FILENAMES,
                                      .has_line_numbers = m->flags & SYMBOLS_HAS_LINE_NUMBERS,
                                      .has_inline_frames = m->flags & SYMBOLS_HAS_INLINE_FRAMES});
}

// A decoded row of locations.
struct raw_location {
    struct id id;
    uint64_t address;
    bool folded, mapped;
    struct symbols_mapping m;
    struct str file, build_id;
    size_t n;
    struct str *texts[3];
    int64_t *numbers[3];
};

static bool parse_location(struct fetching *f, struct unpack *b, struct raw_location *l)
{
    l->id = row_id(b);
    l->address = row_u64(b);
    l->folded = row_u8(b);
    l->mapped = row_u8(b);
    l->m = (struct symbols_mapping){.size = row_u64(b)};
    l->m.offset = row_u64(b);
    l->file = unpack_str(b);
    l->build_id = unpack_str(b);
    l->m.flags = row_u32(b);
    l->n = unpack_count(b);
    for (int column = 0; column < 6; column++) {
        if (column && unpack_count(b) != l->n)
            unpack_fail(b);
        if (column < 3)
            l->texts[column] = arena_array(f->arena, l->n, sizeof **l->texts);
        else
            l->numbers[column - 3] = arena_array(f->arena, l->n, sizeof **l->numbers);
        for (size_t i = 0; i < l->n; i++)
            if (column < 3)
                l->texts[column][i] = unpack_str(b);
            else
                l->numbers[column - 3][i] = (int64_t)row_u64(b);
    }
    l->m.start = row_u64(b);
    return !b->bad;
}

static void build_fetched_location(struct fetching *f, const struct raw_location *l,
                                   const struct late_names *names)
{
    struct model_builder *b = &f->b;
    struct model_line *lines = arena_array(f->arena, l->n, sizeof *lines);
    uint32_t n = (uint32_t)l->n;
    for (uint32_t i = 0; i < n; i++)
        lines[i] = (struct model_line){
            l->numbers[1][i], l->numbers[2][i],
            model_build_function(b, model_build_string(b, l->texts[0][i]),
                                 model_build_string(b, l->texts[1][i]),
                                 model_build_string(b, l->texts[2][i]), l->numbers[0][i])};
    if (!n && l->mapped)
        n = names_lines(names, l->build_id, l->address + l->m.offset, b, &lines);
    uint32_t mapping = l->mapped ? fetched_mapping(f, &l->m, model_build_string(b, l->file),
                                                   model_build_string(b, l->build_id))
                                 : MODEL_NONE;
    uint64_t start = l->mapped ? b->p->mappings[mapping].start : 0;
    uint32_t made = model_build_location(b, mapping, l->address + start, lines, n);
    b->p->locations[made].is_folded |= l->folded;
    f->location_ids =
        arena_push(f->arena, f->location_ids, f->n_locations, &f->cap_ids, sizeof *f->location_ids);
    f->locations =
        arena_push(f->arena, f->locations, f->n_locations, &f->cap_locations, sizeof *f->locations);
    f->location_ids[f->n_locations] = l->id;
    f->locations[f->n_locations] = made;
    hash_add(&f->index, f->arena, hash_mix(l->id.a, l->id.b), (uint32_t)f->n_locations++);
}

static int build_fetched_locations(struct fetching *f, struct unpack rows, struct err *e)
{
    struct raw_location *all = NULL, l;
    size_t n = 0, cap = 0, n_places = 0;
    while (rows.p < rows.end && parse_location(f, &rows, &l)) {
        all = arena_push(f->arena, all, n, &cap, sizeof *all);
        all[n++] = l;
    }
    uint64_t *places = arena_array(f->arena, n, sizeof *places);
    for (size_t i = 0; i < n; i++)
        if (!all[i].n && all[i].mapped && all[i].build_id.n)
            places[n_places++] = all[i].address + all[i].m.offset;
    struct late_names names;
    int code = clickhouse_rows_end(f->c, &rows, 0, e);
    if (!code)
        code = names_query(f->c, f->s->tenant, places, n_places, f->arena, &names, e);
    for (size_t i = 0; i < n && !code; i++)
        build_fetched_location(f, &all[i], &names);
    return code;
}

static uint32_t fetched_location(const struct fetching *f, struct id id)
{
    for (struct hash_probe at = hash_find(&f->index, hash_mix(id.a, id.b));
         hash_hit(&f->index, &at); hash_next(&f->index, &at))
        if (id_eq(f->location_ids[at.item], id))
            return f->locations[at.item];
    return MODEL_NONE;
}

// Fetches all locations of the stacks in rows.
static int fetch_locations(struct fetching *f, struct unpack rows, struct err *e)
{
    struct id *ids = NULL;
    size_t n = 0, cap = 0;
    while (rows.p < rows.end && !rows.bad) {
        row_u64(&rows);
        row_u8(&rows);
        for (size_t left = unpack_count(&rows); left > 0; left--) {
            ids = arena_push(f->arena, ids, n, &cap, sizeof *ids);
            ids[n++] = row_id(&rows);
        }
    }
    size_t kept = id_distinct(ids, n);
    if (rows.bad || !kept)
        return clickhouse_rows_end(f->c, &rows, 0, e);
    struct out sql;
    struct unpack found;
    select_rows(f, &sql,
                "location, any(address), any(folded), any(mapped), any(size), any(offset), "
                "any(file), any(build_id), any(flags), any(names), any(system_names), any(files), "
                "any(start_lines), any(lines), any(columns), any(start)",
                "locations");
    if (kept <= IDS_MAX) {
        out_text(&sql, " AND location IN (");
        sql_ids(&sql, ids, kept);
        out_text(&sql, ")");
    }
    out_text(&sql, " GROUP BY location FORMAT RowBinary");
    int code = clickhouse_query(f->c, out_result(&sql), f->arena, &found, e);
    return code ? code : build_fetched_locations(f, found, e);
}

static void cache_stack(struct stacks_cache *s, uint64_t number, uint32_t node)
{
    s->numbers =
        arena_push(s->symbols->arena, s->numbers, s->n, &s->cap_numbers, sizeof *s->numbers);
    s->nodes = arena_push(s->symbols->arena, s->nodes, s->n, &s->cap_nodes, sizeof *s->nodes);
    s->numbers[s->n] = number;
    s->nodes[s->n] = node;
    hash_add(&s->index, s->symbols->arena, hash_mix(number, 0), (uint32_t)s->n++);
}

// Adds the stacks in rows as samples whose value is their index, so that each node identifies its
// stack.
static void cache_stacks(struct fetching *f, struct unpack rows)
{
    struct stacks_cache *s = f->s;
    s->half_added = true;
    uint64_t *numbers = NULL;
    size_t n = 0, cap = 0, cap_frames = 0;
    uint32_t *frames = NULL;
    while (rows.p < rows.end && !rows.bad) {
        uint64_t number = row_u64(&rows);
        s->has_doubles |= row_u8(&rows);
        size_t depth = unpack_count(&rows);
        bool whole = true;
        if (depth > cap_frames) {
            cap_frames = depth * 2;
            frames = arena_array(f->arena, cap_frames, sizeof *frames);
        }
        for (size_t i = 0; i < depth; i++) {
            arena_spend(f->arena, 1);
            frames[i] = fetched_location(f, row_id(&rows));
            whole &= frames[i] != MODEL_NONE;
        }
        if (rows.bad || !whole || stacks_node(s, number) != UINT32_MAX)
            continue;
        numbers = arena_push(f->arena, numbers, n, &cap, sizeof *numbers);
        numbers[n++] = number;
        model_build_sample(&f->b, frames, depth, (const int64_t[]){1, (int64_t)n});
    }
    if (!s->index.slots)
        hash_init(&s->index, s->symbols->arena, 256);
    struct symbols_values v;
    symbols_add(s->symbols, f->b.p, &f->ids, f->arena, &v);
    for (uint32_t i = 0; i < v.n; i++)
        if (v.values[i] == 1)
            cache_stack(s, numbers[v.values[(size_t)v.n + i] - 1], v.nodes[i]);
    // Stacks that differ in nothing the tree stores share a node: add the remaining ones one by
    // one.
    for (size_t i = 0; i < n; i++) {
        if (stacks_node(s, numbers[i]) != UINT32_MAX)
            continue;
        struct model_profile one = *f->b.p;
        one.n_samples = 1;
        one.stacks += i;
        one.stack_len += i;
        one.values += i * one.n_types;
        symbols_add(s->symbols, &one, &f->ids, f->arena, &v);
        cache_stack(s, numbers[i], v.nodes[0]);
    }
    s->half_added = false;
}

static int fetch_stacks(struct fetching *f, const uint64_t *numbers, size_t n, struct err *e)
{
    struct out sql;
    struct unpack rows;
    model_build(&f->b, f->arena);
    model_build_type(&f->b, STR("n"), STR("count"));
    model_build_type(&f->b, STR("id"), STR("count"));
    hash_init(&f->index, f->arena, n * 4);
    select_rows(f, &sql, "stack, toUInt8(min(id) != max(id)), any(locations)", "stacks");
    if (n <= IDS_MAX) {
        out_text(&sql, " AND stack IN (");
        sql_numbers(&sql, numbers, n);
        out_text(&sql, ")");
    }
    out_text(&sql, " GROUP BY stack FORMAT RowBinary");
    int code = clickhouse_query(f->c, out_result(&sql), f->arena, &rows, e);
    if (!code)
        code = fetch_locations(f, rows, e);
    if (!code)
        cache_stacks(f, rows);
    return code;
}

int stacks_ensure(struct clickhouse *c, struct stacks_cache *s, const struct store_select *select,
                  const uint64_t *numbers, size_t n, struct budget *budget, struct err *e)
{
    struct fetching f = {.c = c, .s = s, .arena = arena_new_in(budget, 0)};
    if (!f.arena)
        return err_set(e, "no memory to read stacks");
    f.first_day = clickhouse_day(select->start);
    f.last_day = clickhouse_day(select->end);
    struct arena_trap trap, symbols_trap;
    if (ARENA_TRY(s->symbols->arena, symbols_trap)) {
        arena_caught(s->symbols->arena, e);
        symbols_ids_fini(&f.ids);
        arena_free(f.arena);
        return STORE_BUSY;
    }
    if (ARENA_TRY(f.arena, trap)) {
        arena_try_end(s->symbols->arena);
        arena_caught(f.arena, e);
        symbols_ids_fini(&f.ids);
        arena_free(f.arena);
        return STORE_BUSY;
    }
    uint64_t *missing = arena_array(f.arena, n, sizeof *missing);
    size_t n_missing = 0;
    for (size_t i = 0; i < n; i++) {
        arena_spend(f.arena, 1);
        if (stacks_node(s, numbers[i]) == UINT32_MAX)
            missing[n_missing++] = numbers[i];
    }
    int code = n_missing ? fetch_stacks(&f, missing, n_missing, e) : 0;
    arena_try_end(f.arena);
    arena_try_end(s->symbols->arena);
    symbols_ids_fini(&f.ids);
    arena_free(f.arena);
    return code;
}
