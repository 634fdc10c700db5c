#include "store/pick.h"

#include "store/sqlite.h"

enum { NODES_PER_STEP = 8 }; // arena_spend steps

struct str pick_function_name(struct str name, struct str system_name)
{
    return name.n ? name : system_name.n ? system_name : STR("unknown");
}

struct str pick_address_name(struct arena *arena, bool mapped, struct str file, uint64_t place)
{
    if (!mapped)
        return str_from(arena_printf(arena, "0x%llx", (unsigned long long)place));
    size_t slash = file.n;
    while (slash && file.p[slash - 1] != '/')
        slash--;
    return str_from(arena_printf(arena, "%.*s+0x%llx", (int)(file.n - slash), file.p + slash,
                                 (unsigned long long)place));
}

bool pick_address_is_frame(bool mapped, struct str file, bool has_build_id, bool has_functions)
{
    return !mapped || (!has_functions && (has_build_id || (file.n && file.p[0] == '/')));
}

struct picking {
    const struct symbols *s;
    struct db *names;
    struct arena *arena;
    bool wants_address; // the filter may name an address
    struct str *frames; // of the last location, innermost first
    size_t cap;
};

static struct str symbol_function_name(const struct symbols *s, uint32_t function)
{
    const struct symbols_function *f = &s->functions[function];
    return pick_function_name(s->strings[f->name], s->strings[f->system_name]);
}

static void reserve_frames(struct picking *p, size_t n)
{
    if (n <= p->cap)
        return;
    p->cap = n * 2;
    p->frames = arena_array(p->arena, p->cap, sizeof *p->frames);
}

// The frames of a location without lines.
static uint32_t late_frames(struct picking *p, const struct symbols_location *l)
{
    const struct symbols *s = p->s;
    const struct symbols_mapping *m = l->mapping ? &s->mappings[l->mapping - 1] : NULL;
    struct str file = m ? s->strings[m->file] : STR("");
    uint64_t place = l->address + (m ? m->offset : 0);
    struct store_frame *frames;
    size_t n;
    if (names_of_location(p->names, s, l, p->arena, &frames, &n)) {
        reserve_frames(p, n);
        for (size_t i = 0; i < n; i++)
            p->frames[i] = pick_function_name(frames[i].name, frames[i].system_name);
        return (uint32_t)n;
    }
    if (!pick_address_is_frame(m, file, m && m->build_id, m && m->flags & SYMBOLS_HAS_FUNCTIONS))
        return 0;
    reserve_frames(p, 1);
    p->frames[0] = p->wants_address ? pick_address_name(p->arena, m, file, place) : STR("");
    return 1;
}

static uint32_t location_frames(struct picking *p, uint32_t location)
{
    const struct symbols_location *l = &p->s->locations[location];
    if (!l->n_lines)
        return late_frames(p, l);
    reserve_frames(p, l->n_lines);
    for (uint32_t i = 0; i < l->n_lines; i++)
        p->frames[i] = symbol_function_name(p->s, p->s->lines[l->first_line + i].function);
    return l->n_lines;
}

// --- a function ---

enum { HAS_IT = 1, ENDS_IN_IT = 2, NO_FRAME = 4 };

static uint8_t match_location(struct picking *p, uint32_t location, struct str function,
                              const bool *is_it)
{
    const struct symbols_location *l = &p->s->locations[location];
    uint32_t n = l->n_lines;
    uint8_t found = 0;
    if (!n && !(n = late_frames(p, l)))
        return NO_FRAME;
    for (uint32_t i = 0; i < n; i++)
        if (l->n_lines ? is_it[p->s->lines[l->first_line + i].function]
                       : str_eq(p->frames[i], function))
            found |= i ? HAS_IT : HAS_IT | ENDS_IN_IT;
    return found;
}

static bool pick_function(struct picking *p, struct str function, uint8_t *picks)
{
    const struct symbols *s = p->s;
    bool any = false;
    bool *is_it = arena_array(p->arena, s->n.functions, sizeof *is_it);
    uint8_t *locations = arena_array(p->arena, s->n.locations, sizeof *locations);
    for (uint32_t i = 0; i < s->n.functions; i++)
        is_it[i] = str_eq(symbol_function_name(s, i), function);
    for (uint32_t i = 0; i < s->n.locations; i++) {
        arena_spend(p->arena, s->locations[i].n_lines ? i % NODES_PER_STEP == 0 : 1);
        locations[i] = match_location(p, i, function, is_it);
        any |= locations[i] & HAS_IT;
    }
    for (uint32_t i = 1; any && i < s->n.nodes; i++) {
        uint8_t above = picks[s->nodes[i].parent], here = locations[s->nodes[i].location];
        arena_spend(p->arena, i % NODES_PER_STEP == 0);
        if (here & NO_FRAME) {
            picks[i] = above;
            continue;
        }
        picks[i] = (above & PICK_TOTAL) | (here & HAS_IT ? PICK_TOTAL : 0) |
                   (here & ENDS_IN_IT ? PICK_SELF : 0);
    }
    return any;
}

// --- a call site ---

static bool pick_call_site(struct picking *p, const struct store_filter *filter, uint8_t *picks)
{
    const struct symbols *s = p->s;
    // How many names of the call site the frames from the root down to a node have matched. n + 1:
    // the stack continues below the call site.
    size_t n = filter->n_call_site;
    uint32_t *met = arena_array(p->arena, s->n.nodes, sizeof *met);
    bool *beside = arena_array(p->arena, s->n.nodes, sizeof *beside), any = false;
    for (uint32_t i = 1; i < s->n.nodes; i++) {
        uint32_t parent = s->nodes[i].parent;
        arena_spend(p->arena, i % NODES_PER_STEP == 0);
        met[i] = met[parent];
        beside[i] = beside[parent];
        if (beside[i])
            continue;
        if (met[i] <= n) {
            for (uint32_t j = location_frames(p, s->nodes[i].location); j-- > 0 && met[i] <= n;) {
                if (met[i] < n && !str_eq(p->frames[j], filter->call_site[met[i]])) {
                    beside[i] = true;
                    break;
                }
                met[i]++;
            }
        }
        if (beside[i] || met[i] < n)
            continue;
        picks[i] = met[i] == n ? PICK_TOTAL | PICK_SELF : PICK_TOTAL;
        any = true;
    }
    return any;
}

static bool may_name_address(struct str name)
{
    return str_find(name, STR("0x"), 0) != SIZE_MAX;
}

const uint8_t *pick_nodes(const struct store_filter *filter, const struct symbols *s,
                          struct db *names, struct arena *arena)
{
    struct picking p = {.s = s, .names = names, .arena = arena};
    uint8_t *picks = arena_array(arena, s->n.nodes, sizeof *picks);
    p.wants_address = !filter->n_call_site && may_name_address(filter->function);
    for (size_t i = 0; i < filter->n_call_site; i++)
        p.wants_address |= may_name_address(filter->call_site[i]);
    bool any = filter->n_call_site ? pick_call_site(&p, filter, picks)
                                   : pick_function(&p, filter->function, picks);
    return any ? picks : NULL;
}
