#include "codec/stacks.h"

#include "codec/proto.h"
#include "codec/scan.h"
#include "model/builder.h"

enum { JOINED_MAX = 1 << 20 }; // bytes of a joined stack

struct stacks {
    struct model_builder b;
    struct arena *arena;
    uint32_t *frames;
    size_t cap;
    struct err *e;
};

// Adds a sample with the stack root;...;leaf. Skips frames without a name.
static void stacks_add_stack(struct stacks *s, struct str joined, int64_t value)
{
    size_t n = 0;
    if (!value)
        return;
    for (size_t end = joined.n; end > 0;) {
        size_t from = end;
        while (from > 0 && joined.p[from - 1] != ';')
            from--;
        struct str name = str_from_to(joined, from, end);
        if (name.n) {
            s->frames = arena_push(s->arena, s->frames, n, &s->cap, sizeof *s->frames);
            s->frames[n++] = model_build_named_location(&s->b, name);
        }
        end = from ? from - 1 : 0;
    }
    if (n)
        model_build_sample(&s->b, s->frames, n, &value);
}

static int stacks_read_lines(struct stacks *s, bool counted, const uint8_t *data, size_t n)
{
    struct str rest = {(const char *)data, n}, line;
    for (size_t number = 1; str_next_line(&rest, &line); number++) {
        if (!counted) {
            stacks_add_stack(s, line, 1);
            continue;
        }
        size_t at = line.n;
        while (at > 0 && line.p[at - 1] != ' ')
            at--;
        if (at == 0)
            continue;
        struct str count = str_from_to(line, at, line.n);
        int64_t value;
        if (count.n && count.p[0] == '+')
            count = str_from_to(count, 1, count.n);
        if (!str_to_i64(count, &value) || value < 0)
            return err_set(s->e, "line %zu: expected a stack, a blank and a count, found '%s'",
                           number, scan_quote(count).text);
        stacks_add_stack(s, str_from_to(line, 0, at - 1), value);
    }
    return 0;
}

struct level {
    uint64_t children; // not read yet
    size_t length;     // length of the joined stack above them
};

static int stacks_node_error(struct stacks *s, const uint8_t *data, const struct proto_span *at)
{
    return err_set(s->e, "the node at byte %zu is cut short or malformed", (size_t)(at->p - data));
}

static int stacks_read_nodes(struct stacks *s, bool is_trie, const uint8_t *data, size_t n)
{
    struct proto_span span = {data, data + n};
    struct level *levels = NULL;
    size_t depth = 0, cap = 0, length = 0, cap_joined = 0;
    char *joined = NULL;
    for (bool root = true; span.p < span.end; root = false) {
        const struct proto_span at = span;
        uint64_t name, value, children;
        if (!proto_varint(&span, &name) || name > (uint64_t)(span.end - span.p))
            return stacks_node_error(s, data, &at);
        const uint8_t *text = span.p;
        span.p += name;
        if (!proto_varint(&span, &value) || !proto_varint(&span, &children) || value > INT64_MAX)
            return stacks_node_error(s, data, &at);
        size_t above = length;
        if (length + name + 1 > JOINED_MAX)
            return err_set(s->e, "the stack at byte %zu has more than %d bytes",
                           (size_t)(at.p - data), JOINED_MAX);
        if (is_trie || !root) {
            size_t need = length + (size_t)name + 1;
            if (need > cap_joined) {
                size_t larger = need * 2;
                joined = arena_grow(s->arena, joined, cap_joined, larger);
                cap_joined = larger;
            }
            if (!is_trie && length)
                joined[length++] = ';';
            if (name)
                memcpy(joined + length, text, (size_t)name);
            length += (size_t)name;
            stacks_add_stack(s, (struct str){joined, length}, (int64_t)value);
        }
        if (children) {
            levels = arena_push(s->arena, levels, depth, &cap, sizeof *levels);
            levels[depth++] = (struct level){children, above};
            continue;
        }
        length = above;
        while (depth && --levels[depth - 1].children == 0)
            length = levels[--depth].length;
        if (!depth)
            return 0;
    }
    return depth ? err_set(s->e, "the tree ends before its last node") : 0;
}

struct model_profile *stacks_read(struct arena *arena, enum stacks_format format,
                                  const uint8_t *data, size_t n, struct err *e)
{
    struct stacks s = {.arena = arena, .e = e};
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    model_build(&s.b, arena);
    model_build_type(&s.b, STR("samples"), STR("count"));
    int result = format == STACKS_GROUPS || format == STACKS_LINES
                     ? stacks_read_lines(&s, format == STACKS_GROUPS, data, n)
                     : stacks_read_nodes(&s, format == STACKS_TRIE, data, n);
    arena_try_end(arena);
    return result ? NULL : s.b.p;
}
