// Maps a profile's locations to the frames of a flame graph and names them.
#include "report/flame_internal.h"

#include <inttypes.h>

struct key_table {
    struct arena *arena;
    struct report_flame_frame *items;
    size_t n, cap;
    struct hash_table index;
};

static uint32_t intern_key(struct key_table *keys, struct str name)
{
    uint64_t hash = hash_bytes(name.p, name.n, 0);
    for (struct hash_probe at = hash_find(&keys->index, hash); hash_hit(&keys->index, &at);
         hash_next(&keys->index, &at))
        if (str_eq(keys->items[at.item].name, name))
            return at.item;
    if (keys->n >= INT32_MAX)
        arena_fail(keys->arena, "more than 2^31 functions");
    keys->items = arena_push(keys->arena, keys->items, keys->n, &keys->cap, sizeof *keys->items);
    keys->items[keys->n] = (struct report_flame_frame){.name = name};
    hash_add(&keys->index, keys->arena, hash, (uint32_t)keys->n);
    return (uint32_t)keys->n++;
}

static struct str location_module(const struct model_profile *p, const struct model_location *l)
{
    if (l->mapping == MODEL_NONE)
        return (struct str){"", 0};
    return flame_basename(model_str(p, p->mappings[l->mapping].file));
}

static struct str unknown_name(struct arena *names, const struct model_profile *p,
                               const struct model_location *l)
{
    struct str module = location_module(p, l);
    bool bare = module.n && module.p[0] == '[';
    const char *open = bare ? "" : "[", *close = bare ? "" : "]";
    if (!module.n && !l->address)
        return STR("<unknown>");
    if (!module.n)
        return str_from(arena_printf(names, "0x%" PRIx64, l->address));
    if (!l->address)
        return str_from(arena_printf(names, "%s%.*s%s", open, (int)module.n, module.p, close));
    const struct model_mapping *m = &p->mappings[l->mapping];
    if (l->address < m->start)
        return str_from(arena_printf(names, "%s%.*s%s 0x%" PRIx64, open, (int)module.n, module.p,
                                     close, l->address));
    return str_from(arena_printf(names, "%s%.*s%s +0x%" PRIx64, open, (int)module.n, module.p,
                                 close, l->address - m->start + m->offset));
}

static struct str frame_function_name(const struct model_profile *p, const struct model_function *f)
{
    struct str name = model_str(p, f->name);
    return name.n ? name : model_str(p, f->system_name);
}

// The first mention of a frame determines its origin, but lines of the same file may lower an
// inferred first line.
static void describe_frame(struct report_flame_frame *key, const struct model_profile *p,
                           const struct model_function *f, const struct model_line *line,
                           struct str module)
{
    if (!key->module.n)
        key->module = module;
    struct str file = model_str(p, f->filename);
    if (!key->file.n && file.n)
        key->file = file;
    if (!str_eq(key->file, file))
        return;
    int64_t at = f->start_line > 0 ? f->start_line : line->line;
    if (at > 0 && (!key->line || at < key->line))
        key->line = at;
}

// The name of a frame that is not a function; empty if unknown.
static struct str place_name(struct arena *names, const struct model_profile *p,
                             const struct model_location *l, const struct model_line *line,
                             enum report_flame_by by)
{
    const struct model_function *f = &p->functions[line->function];
    struct str name = frame_function_name(p, f), file = model_str(p, f->filename);
    if (by == REPORT_FLAME_FILES)
        return file;
    if (!name.n)
        return name;
    if (by == REPORT_FLAME_ADDRESSES)
        return str_from(arena_printf(names, "%016" PRIx64 " %.*s %.*s:%" PRId64, l->address,
                                     (int)name.n, name.p, (int)file.n, file.p, line->line));
    return str_from(arena_printf(names, "%.*s %.*s:%" PRId64, (int)name.n, name.p, (int)file.n,
                                 file.p, line->line));
}

static void init_steps(struct flame_side *side, struct key_table *keys, struct arena *names,
                       enum report_flame_by by)
{
    const struct model_profile *p = side->p;
    uint32_t *function_key = arena_array(keys->arena, p->n_functions, sizeof *function_key);
    for (uint32_t i = 0; i < p->n_functions && by == REPORT_FLAME_FUNCTIONS; i++) {
        struct str name = frame_function_name(p, &p->functions[i]);
        arena_spend(keys->arena, 1);
        function_key[i] = name.n ? intern_key(keys, name) : MODEL_NONE;
    }

    size_t n = 0;
    for (uint32_t i = 0; i < p->n_locations; i++)
        n += p->locations[i].n_lines ? p->locations[i].n_lines : 1;
    if (n >= MODEL_NONE)
        arena_fail(keys->arena, "more than 2^32 lines");
    side->steps = arena_array(keys->arena, n, sizeof *side->steps);
    side->first_step = arena_array(keys->arena, (size_t)p->n_locations + 1, sizeof(uint32_t));

    uint32_t at = 0;
    for (uint32_t i = 0; i < p->n_locations; i++) {
        const struct model_location *l = &p->locations[i];
        struct str module = location_module(p, l);
        arena_spend(keys->arena, 1 + l->n_lines);
        side->first_step[i] = at;
        uint32_t unknown = MODEL_NONE;
        for (uint32_t k = l->n_lines ? l->n_lines : 1; k-- > 0;) {
            uint32_t key = MODEL_NONE;
            if (l->n_lines) {
                const struct model_line *line = &p->lines[l->first_line + k];
                if (by == REPORT_FLAME_FUNCTIONS) {
                    key = function_key[line->function];
                } else {
                    struct str name = place_name(names, p, l, line, by);
                    key = name.n ? intern_key(keys, name) : MODEL_NONE;
                }
                if (key != MODEL_NONE)
                    describe_frame(&keys->items[key], p, &p->functions[line->function], line,
                                   module);
            }
            if (key == MODEL_NONE) {
                if (unknown == MODEL_NONE)
                    unknown = intern_key(keys, unknown_name(names, p, l));
                key = unknown;
                keys->items[key].module = module;
            }
            side->steps[at++] = key << 1 | (l->n_lines && k + 1 < l->n_lines);
        }
    }
    side->first_step[p->n_locations] = at;
}

// The type of base with the name of p's type; MODEL_NONE: none.
static uint32_t find_same_type(const struct model_profile *p, uint32_t type,
                               const struct model_profile *base)
{
    for (uint32_t i = 0; i < base->n_types; i++)
        if (str_eq(model_str(p, p->types[type].type), model_str(base, base->types[i].type)) &&
            str_eq(model_str(p, p->types[type].unit), model_str(base, base->types[i].unit)))
            return i;
    return MODEL_NONE;
}

// Selects the requested type, then the others that both sides have.
static bool choose_flame_types(struct flame_stacks *stacks, struct arena *arena,
                               const struct report_flame_options *options, struct err *e)
{
    const struct model_profile *p = stacks->sides[0].p, *base = options->base;
    if (options->type >= p->n_types) {
        err_set(e, "unknown sample type %u; the profile has %u", options->type, p->n_types);
        return false;
    }
    for (uint32_t s = 0; s < stacks->n_sides; s++)
        stacks->sides[s].value = arena_array(arena, p->n_types, sizeof(uint32_t));
    for (uint32_t i = 0; i < p->n_types; i++) {
        uint32_t type = i == 0 ? options->type : i <= options->type ? i - 1 : i;
        if (i > 0 && !options->all_types)
            break;
        if (base) {
            uint32_t other = find_same_type(p, type, base);
            if (other == MODEL_NONE && i == 0) {
                struct str t = model_str(p, p->types[type].type),
                           u = model_str(p, p->types[type].unit);
                err_set(e, "the base has no sample type '%.*s' in '%.*s' to compare with", (int)t.n,
                        t.p, (int)u.n, u.p);
                return false;
            }
            if (other == MODEL_NONE)
                continue;
            stacks->sides[1].value[stacks->n_types] = other;
        }
        stacks->sides[0].value[stacks->n_types++] = type;
    }
    stacks->n_columns = stacks->n_types * stacks->n_sides;
    stacks->sides[0].column = base ? 1 : 0;
    return true;
}

static bool sum_columns(struct flame_stacks *stacks, struct arena *arena, struct err *e)
{
    stacks->sums = arena_array(arena, stacks->n_columns, sizeof *stacks->sums);
    stacks->negative = arena_array(arena, stacks->n_types, sizeof *stacks->negative);
    for (uint32_t s = 0; s < stacks->n_sides; s++) {
        const struct flame_side *side = &stacks->sides[s];
        for (uint32_t t = 0; t < stacks->n_types; t++) {
            __int128 above = 0, below = stacks->negative[t];
            for (size_t i = 0; i < side->p->n_samples; i++) {
                arena_spend(arena, 1);
                int64_t v = model_values(side->p, i)[side->value[t]];
                *(v > 0 ? &above : &below) += v > 0 ? v : -(__int128)v;
            }
            // So both sides together stay below 2^63.
            if (above > INT64_MAX / 2 || below > INT64_MAX) {
                err_set(e, "the values of the samples add up to more than 2^62: "
                           "the profile is damaged, or needs to be scaled first");
                return false;
            }
            stacks->sums[t * stacks->n_sides + side->column] = (int64_t)above;
            stacks->negative[t] = (int64_t)below;
        }
    }
    return true;
}

bool flame_stacks_init(struct flame_stacks *stacks, struct arena *arena, struct arena *names,
                       const struct model_profile *p, const struct report_flame_options *options,
                       struct err *e)
{
    *stacks = (struct flame_stacks){
        .sides = {{.p = p}, {.p = options->base}},
        .n_sides = options->base ? 2 : 1,
    };
    if (!choose_flame_types(stacks, arena, options, e) || !sum_columns(stacks, arena, e))
        return false;
    struct key_table keys = {.arena = arena};
    hash_init(&keys.index, arena, p->n_functions);
    for (uint32_t s = 0; s < stacks->n_sides; s++)
        init_steps(&stacks->sides[s], &keys, names, options->by);
    stacks->keys = keys.items;
    stacks->n_keys = (uint32_t)keys.n;
    return true;
}

void flame_stacks_count(const struct flame_stacks *stacks, struct arena *arena, int64_t *self,
                        int64_t *total)
{
    uint32_t n_types = stacks->n_types, stride = stacks->n_sides, columns = stacks->n_columns;
    size_t *seen = arena_array(arena, stacks->n_keys, sizeof *seen); // sample + 1
    size_t stamp = 0;
    int64_t *row = arena_array(arena, columns, sizeof *row);
    for (uint32_t s = 0; s < stacks->n_sides; s++) {
        const struct flame_side *side = &stacks->sides[s];
        for (size_t i = 0; i < side->p->n_samples; i++) {
            memset(row, 0, columns * sizeof *row);
            arena_spend(arena, 1 + (1 + columns / 8) * side->p->stack_len[i]);
            if (!flame_add_sample(side, n_types, stride, i, row) || !side->p->stack_len[i])
                continue;
            const uint32_t *stack = model_stack(side->p, i);
            uint32_t leaf = side->steps[side->first_step[stack[0] + 1] - 1] >> 1;
            for (uint32_t c = side->column; c < columns; c += stride)
                self[(size_t)leaf * columns + c] += row[c];
            stamp++;
            for (uint32_t k = 0; k < side->p->stack_len[i]; k++) {
                uint32_t end = side->first_step[stack[k] + 1];
                for (uint32_t at = side->first_step[stack[k]]; at < end; at++) {
                    uint32_t key = side->steps[at] >> 1;
                    if (seen[key] == stamp)
                        continue;
                    seen[key] = stamp;
                    for (uint32_t c = side->column; c < columns; c += stride)
                        total[(size_t)key * columns + c] += row[c];
                }
            }
        }
    }
}
