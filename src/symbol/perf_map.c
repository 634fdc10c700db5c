#include "symbol/perf_map.h"

void perf_map_begin(struct perf_map *map, struct jit_name *names, size_t n, struct arena *arena)
{
    *map = (struct perf_map){.names = names, .n = n, .arena = arena};
}

// Parses the hexadecimal number at the start of s and removes it with the blank after it.
static bool take_hex_number(struct str *s, uint64_t *value)
{
    size_t n = 0;
    if (str_starts(*s, STR("0x")))
        *s = str_from_to(*s, 2, s->n);
    while (n < s->n && s->p[n] != ' ')
        n++;
    if (n == s->n || !str_to_u64(str_from_to(*s, 0, n), 16, value))
        return false;
    *s = str_from_to(*s, n + 1, s->n);
    return true;
}

static void perf_map_parse_line(struct perf_map *map)
{
    struct str rest = {map->line, map->n_line};
    uint64_t start, size;
    map->n_line = 0;
    if (!take_hex_number(&rest, &start) || !take_hex_number(&rest, &size) || size == 0)
        return;
    rest = str_trim(rest);
    if (rest.n == 0)
        return;
    for (size_t i = jit_first_at_or_after(map->names, map->n, start);
         i < map->n && map->names[i].address - start < size; i++) {
        struct jit_name *to = &map->names[i];
        jit_set_text(map->arena, &to->name, &to->room, rest);
        to->file.n = 0;
        to->line = 0;
    }
}

void perf_map_feed(struct perf_map *map, const uint8_t *p, size_t n)
{
    while (n) {
        const uint8_t *newline = memchr(p, '\n', n);
        size_t part = newline ? (size_t)(newline - p) : n;
        size_t room = sizeof map->line - map->n_line;
        size_t taken = part < room ? part : room;
        memcpy(map->line + map->n_line, p, taken);
        map->n_line += taken;
        p += part;
        n -= part;
        if (newline) {
            perf_map_parse_line(map);
            p++;
            n--;
        }
    }
}

void perf_map_end(struct perf_map *map)
{
    perf_map_parse_line(map);
}
