#include "codec/legacy.h"

// Java's heapz and contentionz formats: a header line, `key=value` lines, samples, and lines that
// name the locations. Each part ends at the first line of another kind.

// Sets *line to the next line, trimmed, without consuming it. Returns false if no newline follows;
// such text belongs to the next part.
static bool next_full_line(struct scan_lines *lines, struct str *line)
{
    const char *end = memchr(lines->rest.p, '\n', lines->rest.n);
    if (!end)
        return false;
    size_t n = (size_t)(end - lines->rest.p);
    *line = scan_trim(str_from_to(lines->rest, 0, n));
    return true;
}

static void skip_line(struct scan_lines *lines)
{
    scan_next(lines);
}

static bool java_is_word_char(char c)
{
    return c == ' ' || c == '_' || scan_is_digit(c) || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

// Finds the leftmost `key=value` in the line. Both consist of words and blanks.
static bool java_find_attribute(struct str line, struct str *key, struct str *value)
{
    for (size_t i = 0; i < line.n; i++) {
        struct scan s = scan_from(line, i);
        *key = scan_run(&s, java_is_word_char);
        if (key->n == 0)
            continue;
        i += key->n - 1;
        if (!scan_char(&s, '='))
            continue;
        *value = scan_run(&s, java_is_word_char);
        if (value->n) {
            *key = scan_trim(*key);
            *value = scan_trim(*value);
            return true;
        }
    }
    return false;
}

static void java_set_types(struct legacy *l, struct str first, struct str second, struct str unit)
{
    l->b.p->n_types = 0;
    model_build_type(&l->b, first, STR("count"));
    model_build_type(&l->b, second, unit);
}

static enum legacy_result java_read_attribute(struct legacy *l, bool is_heap, struct str key,
                                              struct str value, size_t line)
{
    struct model_profile *p = l->b.p;
    if (str_eq(key, STR("format")))
        return str_eq(value, STR("java")) ? LEGACY_OK : LEGACY_NOT;
    if (str_eq(key, STR("resolution"))) {
        if (is_heap)
            java_set_types(l, STR("inuse_objects"), STR("inuse_space"), value);
        else
            java_set_types(l, STR("contentions"), STR("delay"), value);
        return LEGACY_OK;
    }
    bool is_period = str_eq(key, STR("sampling period"));
    if (is_heap || (!is_period && !str_eq(key, STR("ms since reset"))))
        return LEGACY_NOT;
    int64_t number;
    if (!scan_int(value, &number)) {
        err_set(l->e, "line %zu: `%s` is not a number", line, scan_quote(value).text);
        return LEGACY_BAD;
    }
    if (is_period) {
        p->period_type = (struct model_value_type){
            model_build_string(&l->b, STR("contentions")),
            model_build_string(&l->b, STR("count")),
        };
        p->period = number;
    } else {
        p->duration_nanos = scan_mul(number, 1000 * 1000);
    }
    return LEGACY_OK;
}

// Finds the leftmost `<size> <count> @ <addresses>` in the line.
static bool java_find_sample(struct str line, struct str *size, struct str *count,
                             struct str *addresses)
{
    for (size_t i = 0; i < line.n; i++) {
        struct scan s = scan_from(line, i);
        *size = scan_run(&s, scan_is_digit);
        if (size->n == 0)
            continue;
        i += size->n - 1;
        if (scan_blanks(&s).n == 0)
            continue;
        *count = scan_run(&s, scan_is_digit);
        if (count->n && scan_blanks(&s).n && scan_char(&s, '@') && scan_blanks(&s).n) {
            *addresses = scan_addresses(&s);
            return true;
        }
    }
    return false;
}

// Returns LEGACY_NOT if the line is not a sample; then the next part begins.
static enum legacy_result java_read_sample(struct legacy *l, bool is_heap, struct str line,
                                           size_t line_number)
{
    enum { HEAP_RATE = 512 << 10 };
    struct str size_text, count_text, addresses;
    if (!java_find_sample(line, &size_text, &count_text, &addresses))
        return LEGACY_NOT;
    if (!legacy_add_addresses(l, addresses, 0, line_number))
        return LEGACY_BAD;
    int64_t count, size;
    if (!scan_int(count_text, &count) || !scan_int(size_text, &size)) {
        err_set(l->e, "malformed sample: line %zu: `%s` is not two numbers", line_number,
                scan_quote(line).text);
        return LEGACY_BAD;
    }
    if (is_heap) {
        if (count == 0) {
            err_set(l->e, "malformed sample: line %zu: the second value must not be zero",
                    line_number);
            return LEGACY_BAD;
        }
        model_build_number_label(&l->b, STR("bytes"), size / count, STR(""));
        legacy_unsample(&count, &size, HEAP_RATE);
    } else if (l->b.p->period != 0) {
        count = scan_mul(count, l->b.p->period);
        size = scan_mul(size, l->b.p->period);
    }
    legacy_add_sample(l, (int64_t[]){count, size});
    return LEGACY_OK;
}

struct java_name {
    struct str function, file;
    int64_t line;
};

// Returns the last ( before limit that follows white space, or SIZE_MAX.
static size_t last_paren(struct str s, size_t limit)
{
    for (size_t i = limit; i-- > 1;)
        if (s.p[i] == '(' && scan_is_space(s.p[i - 1]))
            return i;
    return SIZE_MAX;
}

// `function (file:line)`
static bool parse_file_line(struct str s, struct java_name *name)
{
    if (s.n == 0 || s.p[s.n - 1] != ')')
        return false;
    size_t number = s.n - 1;
    while (number > 0 && scan_is_digit(s.p[number - 1]))
        number--;
    if (number == s.n - 1)
        return false;
    if (number > 0 && s.p[number - 1] == '-')
        number--;
    if (number < 2 || s.p[number - 1] != ':')
        return false;
    size_t colon = number - 1, paren = last_paren(s, colon - 1);
    if (paren == SIZE_MAX)
        return false;
    name->function = str_from_to(s, 0, paren - 1);
    name->file = str_from_to(s, paren + 1, colon);
    int64_t line;
    name->line = str_to_i64(str_from_to(s, number, s.n - 1), &line) && line > 0 ? line : 0;
    return true;
}

// `function (/path/of/library.so)`. Only the file name of the path is kept.
static bool parse_path(struct str s, struct java_name *name)
{
    if (s.n == 0 || s.p[s.n - 1] != ')')
        return false;
    size_t paren = last_paren(s, s.n - 1);
    if (paren == SIZE_MAX)
        return false;
    name->function = str_from_to(s, 0, paren - 1);
    name->file = scan_basename(str_from_to(s, paren + 1, s.n - 1));
    return true;
}

static struct java_name parse_name(struct str s)
{
    struct java_name name = {.function = s, .file = STR("")};
    if (parse_file_line(s, &name) || parse_path(s, &name))
        return name;
    if (scan_contains(s, STR("generated stub/JIT")))
        name.function = STR("STUB");
    return name;
}

// Returns the function with this name. It keeps the first file that was seen with the name.
static uint32_t function_named(struct legacy *l, struct hash_table *by_name,
                               const struct java_name *name)
{
    struct model_profile *p = l->b.p;
    uint32_t id = model_build_string(&l->b, name->function);
    uint64_t hash = hash_mix(id, 0);
    for (struct hash_probe at = hash_find(by_name, hash); hash_hit(by_name, &at);
         hash_next(by_name, &at))
        if (p->functions[at.item].name == id)
            return at.item;
    uint32_t made = model_build_function(&l->b, id, id, model_build_string(&l->b, name->file), 0);
    hash_add(by_name, l->arena, hash, made);
    return made;
}

enum legacy_result legacy_read_java_names(struct legacy *l, struct str rest, size_t line_number)
{
    struct model_profile *p = l->b.p;
    struct hash_table by_name;
    hash_init(&by_name, l->arena, 64);
    // Names refer to locations by the address that the samples have.
    const uint32_t n_sampled = p->n_locations;
    bool *is_named = arena_array(l->arena, n_sampled, sizeof *is_named);
    struct scan_lines lines = {.rest = rest, .number = line_number};
    while (scan_next(&lines)) {
        struct str line = scan_trim(lines.line);
        struct scan s = scan_from(line, 0);
        if (!scan_text(&s, STR("0x")))
            continue;
        struct str digits = scan_run(&s, scan_is_hex);
        if (digits.n == 0 || scan_run(&s, scan_is_space).n == 0)
            continue;
        uint64_t address;
        if (!str_to_u64(digits, 16, &address)) {
            err_set(l->e, "line %zu: the address of a location has more than 64 bits",
                    lines.number);
            return LEGACY_BAD;
        }
        uint32_t location = model_build_location(&l->b, MODEL_NONE, address, NULL, 0);
        if (location >= n_sampled)
            continue;
        struct java_name name = parse_name((struct str){s.at, (size_t)(s.end - s.at)});
        struct model_location *at = &p->locations[location];
        uint32_t where = at->first_line;
        if (!is_named[location]) {
            p->lines =
                arena_push(l->arena, p->lines, p->n_lines, &l->b.cap_lines, sizeof *p->lines);
            at->first_line = where = p->n_lines++;
            is_named[location] = true;
        }
        p->lines[where] = (struct model_line){
            .function = function_named(l, &by_name, &name),
            .line = name.line,
        };
    }
    for (uint32_t i = 0; i < n_sampled; i++) {
        if (is_named[i]) {
            p->locations[i].n_lines = 1;
            p->locations[i].address = 0;
        }
    }
    maps_renumber(&l->b);
    maps_assign(&l->b);
    // Addresses are meaningless outside the run that recorded them.
    for (uint32_t i = 0; i < p->n_locations; i++)
        p->locations[i].address = 0;
    if (p->n_types == 0 && p->n_samples) {
        err_set(l->e, "malformed profile: missing sample type information; expected a "
                      "`resolution=` line before the samples");
        return LEGACY_BAD;
    }
    return LEGACY_OK;
}

enum legacy_result legacy_read_java(struct legacy *l)
{
    struct scan_lines lines = {.rest = l->input};
    struct str line;
    if (!next_full_line(&lines, &line))
        return LEGACY_NOT;
    bool is_heap = str_eq(line, STR("--- heapz 1 ---"));
    if (!is_heap && !str_eq(line, STR("--- contentionz 1 ---")))
        return LEGACY_NOT;
    skip_line(&lines);
    legacy_begin(l, STR(""), STR(""), 0);
    for (struct str key, value; next_full_line(&lines, &line); skip_line(&lines)) {
        if (line.n == 0)
            continue;
        if (!java_find_attribute(line, &key, &value))
            break;
        enum legacy_result result = java_read_attribute(l, is_heap, key, value, lines.number + 1);
        if (result != LEGACY_OK)
            return result;
    }
    for (; next_full_line(&lines, &line); skip_line(&lines)) {
        if (line.n == 0)
            continue;
        enum legacy_result result = java_read_sample(l, is_heap, line, lines.number + 1);
        if (result == LEGACY_BAD)
            return result;
        if (result == LEGACY_NOT)
            break;
    }
    return legacy_read_java_names(l, lines.rest, lines.number);
}
