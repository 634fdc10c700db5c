#include "query/names.h"

#include "store/pick.h"

void query_naming_init(struct query_naming *n, const struct model_profile *p,
                       struct model_strings *strings)
{
    *n = (struct query_naming){.p = p, .strings = strings};
    n->functions = arena_array(strings->arena, p->n_functions, sizeof *n->functions);
    n->locations = arena_array(strings->arena, p->n_locations, sizeof *n->locations);
}

// The name of a frame without a function.
static struct str address_name(const struct model_profile *p, const struct model_location *l,
                               struct arena *arena)
{
    if (l->mapping == MODEL_NONE)
        return pick_address_name(arena, false, STR(""), l->address);
    const struct model_mapping *m = &p->mappings[l->mapping];
    return pick_address_name(arena, true, model_str(p, m->file), l->address - m->start + m->offset);
}

static bool location_is_frame(const struct model_profile *p, const struct model_location *l)
{
    const struct model_mapping *m = l->mapping == MODEL_NONE ? NULL : &p->mappings[l->mapping];
    return pick_address_is_frame(m, m ? model_str(p, m->file) : STR(""), m && m->build_id,
                                 m && m->has_functions);
}

static struct str query_function_name(const struct model_profile *p, uint32_t function)
{
    const struct model_function *f = &p->functions[function];
    return pick_function_name(model_str(p, f->name), model_str(p, f->system_name));
}

uint32_t query_frames(const struct query_naming *n, uint32_t location)
{
    const struct model_location *l = &n->p->locations[location];
    return l->n_lines ? l->n_lines : location_is_frame(n->p, l);
}

uint32_t query_frame_name(struct query_naming *n, uint32_t location, uint32_t frame)
{
    const struct model_location *l = &n->p->locations[location];
    if (l->n_lines == 0) {
        if (!n->locations[location])
            n->locations[location] =
                model_intern(n->strings, address_name(n->p, l, n->strings->arena)) + 1;
        return n->locations[location] - 1;
    }
    uint32_t function = n->p->lines[l->first_line + frame].function;
    if (!n->functions[function])
        n->functions[function] = model_intern(n->strings, query_function_name(n->p, function)) + 1;
    return n->functions[function] - 1;
}
