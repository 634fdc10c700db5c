#include "model/transform.h"

struct model_profile *model_aggregate(const struct model_profile *p, struct model_detail detail,
                                      struct arena *arena)
{
    struct model_profile *to = model_profile_derive(p, arena);
    to->mappings = arena_array(arena, p->n_mappings + 1, sizeof *to->mappings);
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        struct model_mapping m = p->mappings[i];
        m.has_inline_frames &= detail.inlines;
        m.has_functions &= detail.functions;
        m.has_filenames &= detail.filenames;
        m.has_line_numbers &= detail.lines;
        to->mappings[i] = m;
    }
    to->functions = arena_array(arena, p->n_functions + 1, sizeof *to->functions);
    for (uint32_t i = 0; i < p->n_functions; i++) {
        struct model_function f = p->functions[i];
        if (!detail.functions)
            f.name = f.system_name = 0;
        if (!detail.filenames)
            f.filename = 0;
        to->functions[i] = f;
    }
    to->lines = arena_array(arena, p->n_lines + 1, sizeof *to->lines);
    for (uint32_t i = 0; i < p->n_lines; i++) {
        struct model_line line = p->lines[i];
        if (!detail.lines)
            line.line = line.column = 0;
        if (!detail.columns)
            line.column = 0;
        to->lines[i] = line;
    }
    to->locations = arena_array(arena, p->n_locations + 1, sizeof *to->locations);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        struct model_location l = p->locations[i];
        if (!detail.inlines && l.n_lines > 1) {
            l.first_line += l.n_lines - 1;
            l.n_lines = 1;
        }
        if (!detail.addresses)
            l.address = 0;
        to->locations[i] = l;
    }
    return to;
}
