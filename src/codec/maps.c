#include "codec/maps.h"

static bool is_perm(char c)
{
    return c == '-' || c == 'r' || c == 'w' || c == 'x' || c == 'p';
}

static bool is_not_space(char c)
{
    return !scan_is_space(c);
}

// Scans white space and a token of the class. Consumes nothing if either is missing.
static struct str scan_spaced_token(struct scan *s, bool (*in_class)(char))
{
    struct scan at = *s;
    if (scan_run(&at, scan_is_space).n == 0)
        return (struct str){0};
    struct str token = scan_run(&at, in_class);
    if (token.n)
        *s = at;
    return token;
}

// Scans a hexadecimal number with or without 0x. A 0x without digits counts as the number 0.
static struct str scan_hex_number(struct scan *s)
{
    struct scan after_prefix = *s;
    if (scan_text(&after_prefix, STR("0x")) && after_prefix.at < after_prefix.end &&
        scan_is_hex(*after_prefix.at))
        *s = after_prefix;
    return scan_run(s, scan_is_hex);
}

enum { RANGE_WAYS = 3 };

struct range {
    struct str start, limit;
    struct scan after;
};

// A range is two numbers with at most one separator. Without a separator, one run of digits is
// split in two. Returns the possible ways to read the range, preferred first.
static int scan_map_range(struct str line, struct range ways[RANGE_WAYS])
{
    int n = 0;
    struct scan s = scan_from(line, 0);
    scan_run(&s, scan_is_space);
    struct str start = scan_hex_number(&s);
    if (start.n == 0)
        return 0;

    struct scan apart = s;
    if (apart.at < apart.end && (*apart.at == '-' || scan_is_space(*apart.at))) {
        apart.at++;
        scan_run(&apart, scan_is_space);
        struct str limit = scan_hex_number(&apart);
        if (limit.n)
            ways[n++] = (struct range){start, limit, apart};
    }
    if (start.n < 2)
        return n;
    struct str shorter = {start.p, start.n - 1};
    struct scan cut = {start.p + start.n - 1, s.end};
    struct scan prefixed = cut;
    struct str limit = scan_hex_number(&prefixed);
    ways[n++] = (struct range){shorter, limit, prefixed};
    if (prefixed.at != s.at)
        ways[n++] = (struct range){shorter, {cut.at, 1}, s};
    return n;
}

// Reads the rest of a /proc/<pid>/maps line: [perm] [offset] major:minor inode [file].
static bool scan_proc_rest(struct scan s, struct maps_entry *entry)
{
    scan_char(&s, ':');
    entry->perm = scan_spaced_token(&s, is_perm);
    struct scan before = s;
    entry->offset = scan_spaced_token(&s, scan_is_hex);
    struct scan device = s;
    if (scan_spaced_token(&device, scan_is_hex).n == 0) {
        // The token taken for the offset may already be the device.
        entry->offset = (struct str){0};
        device = before;
        scan_spaced_token(&device, scan_is_hex);
    }
    if (!scan_char(&device, ':') || scan_run(&device, scan_is_hex).n == 0 ||
        scan_spaced_token(&device, scan_is_digit).n == 0)
        return false;
    entry->file = scan_spaced_token(&device, is_not_space);
    return true;
}

// Reads the rest of the brief form: [perm] [file] [(@offset)] [build id]. All of it is optional.
static void scan_brief_rest(struct scan s, struct maps_entry *entry)
{
    scan_char(&s, ':');
    entry->perm = scan_spaced_token(&s, is_perm);
    entry->file = scan_spaced_token(&s, is_not_space);
    struct scan at = s;
    scan_run(&at, scan_is_space);
    if (at.at != s.at && scan_text(&at, STR("(@"))) {
        struct str offset = scan_run(&at, scan_is_hex);
        if (offset.n && scan_char(&at, ')')) {
            entry->offset = offset;
            s = at;
        }
    }
    entry->build_id = scan_spaced_token(&s, scan_is_hex);
}

bool maps_parse(struct str line, struct maps_entry *entry)
{
    struct range ways[RANGE_WAYS];
    int n = scan_map_range(line, ways);
    for (int i = 0; i < n; i++) {
        *entry = (struct maps_entry){.start = ways[i].start, .limit = ways[i].limit};
        if (scan_proc_rest(ways[i].after, entry))
            return true;
    }
    if (n == 0)
        return false;
    *entry = (struct maps_entry){.start = ways[0].start, .limit = ways[0].limit};
    scan_brief_rest(ways[0].after, entry);
    return true;
}

bool maps_parse_mapping(struct model_strings *strings, struct str line,
                        struct model_mapping *mapping, bool *is_mapping)
{
    struct maps_entry entry;
    *is_mapping = maps_parse(line, &entry);
    if (!*is_mapping)
        return false;
    if (entry.perm.n && !memchr(entry.perm.p, 'x', entry.perm.n))
        return false;
    *mapping = (struct model_mapping){0};
    if (!str_to_u64(entry.start, 16, &mapping->start) ||
        !str_to_u64(entry.limit, 16, &mapping->limit) ||
        (entry.offset.n && !str_to_u64(entry.offset, 16, &mapping->offset))) {
        *is_mapping = false;
        return false;
    }
    mapping->file = model_intern(strings, entry.file);
    mapping->build_id = model_intern(strings, entry.build_id);
    return true;
}

// Strips the prefix of a logger: `anything:line] `.
static struct str without_log_prefix(struct str line)
{
    size_t bracket = 0;
    while (bracket < line.n && line.p[bracket] != '[' && line.p[bracket] != ']')
        bracket++;
    if (bracket + 1 >= line.n || line.p[bracket] != ']' || !scan_is_space(line.p[bracket + 1]))
        return line;
    size_t digits = bracket;
    while (digits > 0 && scan_is_digit(line.p[digits - 1]))
        digits--;
    if (digits == bracket || digits < 2 || line.p[digits - 1] != ':')
        return line;
    return str_from_to(line, bracket + 2, line.n);
}

// The attributes defined so far, in a trie over their names.
struct attr_node {
    uint32_t child, sibling; // 0: none; node 0 is the root, the $
    uint32_t value;          // index of the attribute + 1
    char byte;
};

struct attrs {
    struct arena *arena;
    struct attr_node *nodes;
    struct str *values;
    size_t n_nodes, cap_nodes, n_values, cap_values;
    char *text; // the current line after replacement
    size_t n_text, cap_text;
    // Attributes may refer to attributes, so a few lines could expand to any amount of text. This
    // is the work that remains allowed.
    size_t budget;
};

static void attrs_spend(struct attrs *a, size_t amount, size_t line)
{
    if (amount > a->budget)
        arena_fail(a->arena,
                   "line %zu: the attributes ($name) of the memory map expand to too much text",
                   line);
    a->budget -= amount;
}

static uint32_t attrs_child(struct attrs *a, uint32_t node, char byte, size_t line)
{
    uint32_t child = a->nodes[node].child;
    size_t steps = 1;
    for (; child && a->nodes[child].byte != byte; child = a->nodes[child].sibling)
        steps++;
    attrs_spend(a, steps, line);
    return child;
}

static uint32_t attrs_add_node(struct attrs *a, struct attr_node node)
{
    a->nodes = arena_push(a->arena, a->nodes, a->n_nodes, &a->cap_nodes, sizeof *a->nodes);
    a->nodes[a->n_nodes] = node;
    return (uint32_t)a->n_nodes++;
}

static void attrs_define(struct attrs *a, struct str name, struct str value, size_t line)
{
    if (a->n_nodes == 0)
        attrs_add_node(a, (struct attr_node){.byte = '$'});
    uint32_t node = 0;
    for (size_t i = 0; i < name.n; i++) {
        uint32_t next = attrs_child(a, node, name.p[i], line);
        if (!next) {
            struct attr_node made = {.sibling = a->nodes[node].child, .byte = name.p[i]};
            next = attrs_add_node(a, made);
            a->nodes[node].child = next;
        }
        node = next;
    }
    // The first definition of a name wins.
    if (a->nodes[node].value)
        return;
    a->values = arena_push(a->arena, a->values, a->n_values, &a->cap_values, sizeof *a->values);
    a->values[a->n_values++] = (struct str){arena_copy(a->arena, value.p, value.n), value.n};
    a->nodes[node].value = (uint32_t)a->n_values;
}

static void attrs_append(struct attrs *a, struct str text)
{
    if (a->n_text + text.n > a->cap_text) {
        size_t want = (a->n_text + text.n) * 2;
        a->text = arena_grow(a->arena, a->text, a->cap_text, want);
        a->cap_text = want;
    }
    if (text.n)
        memcpy(a->text + a->n_text, text.p, text.n);
    a->n_text += text.n;
}

// Finds the attribute named at the start of rest, which follows a $. If several match, the one
// defined first wins. Returns index + 1 and sets *length to the length of the name, or returns 0.
static uint32_t attrs_find(struct attrs *a, struct str rest, size_t *length, size_t line)
{
    uint32_t node = 0, best = a->nodes[0].value;
    *length = 0;
    for (size_t i = 0; i < rest.n; i++) {
        node = attrs_child(a, node, rest.p[i], line);
        if (!node)
            break;
        uint32_t value = a->nodes[node].value;
        if (value && (!best || value < best)) {
            best = value;
            *length = i + 1;
        }
    }
    return best;
}

static struct str attrs_replace(struct attrs *a, struct str line, size_t number)
{
    if (a->n_values == 0 || !memchr(line.p, '$', line.n))
        return line;
    a->n_text = 0;
    size_t kept = 0;
    for (size_t at = 0; at < line.n;) {
        const char *dollar = memchr(line.p + at, '$', line.n - at);
        if (!dollar)
            break;
        at = (size_t)(dollar - line.p) + 1;
        size_t length;
        uint32_t value = attrs_find(a, str_from_to(line, at, line.n), &length, number);
        if (!value)
            continue;
        attrs_spend(a, a->values[value - 1].n, number);
        attrs_append(a, str_from_to(line, kept, at - 1));
        attrs_append(a, a->values[value - 1]);
        kept = at += length;
    }
    attrs_append(a, str_from_to(line, kept, line.n));
    return (struct str){a->text, a->n_text};
}

void maps_read(struct model_builder *b, struct scan_lines *lines)
{
    struct attrs attrs = {
        .arena = b->arena,
        .budget = ((size_t)16 << 20) + 64 * lines->rest.n,
    };
    while (scan_next(lines)) {
        struct str line = attrs_replace(&attrs, without_log_prefix(lines->line), lines->number);
        struct model_mapping mapping;
        bool is_mapping;
        if (maps_parse_mapping(b->p->strings, line, &mapping, &is_mapping)) {
            model_build_mapping(b, mapping);
            continue;
        }
        size_t equals = is_mapping ? SIZE_MAX : str_find(line, STR("="), 0);
        if (equals != SIZE_MAX)
            attrs_define(&attrs, scan_trim(str_from_to(line, 0, equals)),
                         scan_trim(str_from_to(line, equals + 1, line.n)), lines->number);
    }
}
