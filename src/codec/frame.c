#include "codec/frame.h"

#include "codec/scan.h"

struct str frame_name(struct arena *arena, const struct model_profile *p,
                      const struct model_location *location, uint32_t line)
{
    if (line < location->n_lines) {
        const struct model_function *f =
            &p->functions[p->lines[location->first_line + line].function];
        struct str name = model_str(p, f->name ? f->name : f->system_name);
        if (name.n)
            return name;
    }
    if (location->mapping != MODEL_NONE && p->mappings[location->mapping].file) {
        struct str file = scan_basename(model_str(p, p->mappings[location->mapping].file));
        // Names such as [vdso] already have brackets.
        if (file.p[0] == '[')
            return file;
        char *text = arena_alloc(arena, file.n + 2);
        text[0] = '[';
        memcpy(text + 1, file.p, file.n);
        text[file.n + 1] = ']';
        return (struct str){text, file.n + 2};
    }
    if (location->address == 0)
        return STR("[unknown]");
    return str_from(arena_printf(arena, "0x%llx", (unsigned long long)location->address));
}

static struct str frame_name_on_one_line(struct arena *arena, struct str name)
{
    bool is_clean = true;
    for (size_t i = 0; i < name.n && is_clean; i++)
        is_clean = name.p[i] != ';' && name.p[i] != '\n' && name.p[i] != '\r';
    if (is_clean)
        return name;
    char *text = arena_copy(arena, name.p, name.n);
    for (size_t i = 0; i < name.n; i++)
        if (text[i] == ';')
            text[i] = ':';
        else if (text[i] == '\n' || text[i] == '\r')
            text[i] = ' ';
    return (struct str){text, name.n};
}

void frame_table_init(struct frame_table *table, struct arena *arena, const struct model_profile *p)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_locations; i++)
        n += p->locations[i].n_lines ? p->locations[i].n_lines : 1;
    if (n >= MODEL_NONE)
        arena_fail(arena, "more than 2^32 frames");
    table->names = model_strings_new(arena);
    table->first = arena_array(arena, (size_t)p->n_locations + 1, sizeof *table->first);
    table->ids = arena_array(arena, n, sizeof *table->ids);
    uint32_t at = 0;
    for (uint32_t i = 0; i < p->n_locations; i++) {
        const struct model_location *l = &p->locations[i];
        table->first[i] = at;
        for (uint32_t k = l->n_lines ? l->n_lines : 1; k-- > 0;)
            table->ids[at++] = model_intern(
                table->names, frame_name_on_one_line(arena, frame_name(arena, p, l, k)));
    }
    table->first[p->n_locations] = at;
}
