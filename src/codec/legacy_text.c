#include "codec/legacy.h"

// Text formats with counted stacks: Go's goroutine and threadcreate profiles, threadz, and the
// contention profiles of C++ and Go.

static bool scan_is_not_space(char c)
{
    return !scan_is_space(c);
}

// `<type> profile: total <n>`, the whole line
static bool scan_count_header(struct str line, struct str *type)
{
    struct scan s = scan_from(line, 0);
    *type = scan_run(&s, scan_is_not_space);
    return type->n && scan_text(&s, STR(" profile: total ")) && scan_run(&s, scan_is_digit).n &&
           s.at == s.end;
}

// `<n> @ 0x1 0x2`, one space before each address
static enum legacy_result read_count_sample(struct legacy *l, struct str line, size_t line_number)
{
    struct scan s = scan_from(line, 0);
    struct str digits = scan_run(&s, scan_is_digit);
    int64_t count;
    // As in pprof, a leading 0 makes the number octal.
    bool is_ok = scan_text(&s, STR(" @")) && s.at < s.end && scan_int(digits, &count);
    while (is_ok && s.at < s.end) {
        uint64_t address;
        is_ok =
            scan_text(&s, STR(" 0x")) && str_to_u64(scan_run(&s, scan_is_lower_hex), 16, &address);
        if (is_ok)
            legacy_add_frame(l, address - 1);
    }
    if (!is_ok) {
        err_set(l->e,
                "malformed profile format: line %zu: expected `count @ 0xaddress ...`, found `%s`",
                line_number, scan_quote(line).text);
        return LEGACY_BAD;
    }
    legacy_add_sample(l, &count);
    return LEGACY_OK;
}

enum legacy_result legacy_read_count(struct legacy *l)
{
    struct scan_lines lines = {.rest = l->input};
    while (scan_next(&lines) && scan_is_blank_or_comment(lines.line))
        ;
    struct str type;
    if (!scan_count_header(lines.line, &type))
        return LEGACY_NOT;
    legacy_begin(l, type, STR("count"), 1);
    model_build_type(&l->b, type, STR("count"));
    while (scan_next(&lines)) {
        if (scan_is_blank_or_comment(lines.line))
            continue;
        if (str_starts(lines.line, STR("---")))
            break;
        enum legacy_result result = read_count_sample(l, lines.line, lines.number);
        if (result != LEGACY_OK)
            return result;
    }
    legacy_read_map(l, &lines);
    return LEGACY_OK;
}

// `--- threadz <n> ---`, anywhere in the line
static bool has_threadz_start(struct str line)
{
    struct str start = STR("--- threadz ");
    for (size_t at = 0; (at = str_find(line, start, at)) != SIZE_MAX; at++) {
        struct scan s = scan_from(line, at + start.n);
        if (scan_run(&s, scan_is_digit).n && scan_text(&s, STR(" ---")))
            return true;
    }
    return false;
}

// `--- Thread <hex> (name: <any>/<n>) stack: ---`, anywhere in the line
static bool has_thread_start(struct str line)
{
    struct str start = STR("--- Thread "), end = STR(") stack: ---");
    size_t name = SIZE_MAX;
    for (size_t at = 0; name == SIZE_MAX && (at = str_find(line, start, at)) != SIZE_MAX; at++) {
        struct scan s = scan_from(line, at + start.n);
        if (scan_run(&s, scan_is_hex).n && scan_text(&s, STR(" (name: ")))
            name = (size_t)(s.at - line.p);
    }
    if (name == SIZE_MAX)
        return false;
    for (size_t at = name; (at = str_find(line, end, at)) != SIZE_MAX; at++) {
        size_t digits = at;
        while (digits > name && scan_is_digit(line.p[digits - 1]))
            digits--;
        if (digits < at && digits > name && line.p[digits - 1] == '/')
            return true;
    }
    return false;
}

// Adds the frames of one thread. Sets *next to the line that ended it. At the end of the input that
// is the last line read, and the caller decides by it how the profile ends.
static enum legacy_result threadz_read_thread(struct legacy *l, struct scan_lines *lines,
                                              struct str *next)
{
    bool is_same = false;
    *next = STR("");
    while (scan_next(lines)) {
        *next = scan_trim(lines->line);
        if (next->n == 0)
            continue;
        if (str_starts(*next, STR("---")))
            break;
        if (scan_contains(*next, STR("same as previous thread"))) {
            is_same = true;
            continue;
        }
        uint64_t address;
        int found;
        struct str rest = *next;
        // The leaf is the current address; the other frames are return addresses.
        while ((found = scan_address(&rest, &address)) > 0)
            legacy_add_frame(l, address - (l->n_frames > 0));
        if (found < 0) {
            err_set(l->e, "malformed sample: line %zu: an address has more than 64 bits",
                    lines->number);
            return LEGACY_BAD;
        }
    }
    if (is_same)
        l->n_frames = 0;
    return LEGACY_OK;
}

enum legacy_result legacy_read_thread(struct legacy *l)
{
    struct scan_lines lines = {.rest = l->input};
    while (scan_next(&lines) && scan_is_blank_or_comment(lines.line))
        ;
    struct str line = lines.line;
    if (has_threadz_start(line)) {
        while (scan_next(&lines)) {
            line = lines.line;
            if (legacy_is_map_start(line) || str_starts(line, STR("-")))
                break;
        }
    } else if (!has_thread_start(line)) {
        return LEGACY_NOT;
    }
    legacy_begin(l, STR("thread"), STR("count"), 1);
    model_build_type(&l->b, STR("thread"), STR("count"));
    while (!legacy_is_map_start(line)) {
        if (str_starts(line, STR("---- no stack trace for")))
            break;
        if (!has_thread_start(line))
            return LEGACY_NOT;
        enum legacy_result result = threadz_read_thread(l, &lines, &line);
        if (result != LEGACY_OK)
            return result;
        struct model_profile *p = l->b.p;
        if (l->n_frames)
            legacy_add_sample(l, (int64_t[]){1});
        else if (p->n_samples)
            p->values[p->n_samples - 1]++;
    }
    legacy_read_map(l, &lines);
    legacy_drop_repeated_leaf(l);
    return LEGACY_OK;
}

struct contention {
    int64_t period, cycles_per_second, duration;
};

// Reads one `key = value` of the header. Returns false if neither C++ nor Go writes this key, or if
// the value is invalid.
static bool contention_read_attribute(struct contention *c, struct str key, struct str value)
{
    if (str_eq(key, STR("cycles/second")))
        return scan_int(value, &c->cycles_per_second);
    if (str_eq(key, STR("sampling period")))
        return scan_int(value, &c->period);
    if (str_eq(key, STR("ms since reset"))) {
        int64_t milliseconds;
        if (!scan_int(value, &milliseconds))
            return false;
        c->duration = scan_mul(milliseconds, 1000 * 1000);
        return true;
    }
    return str_eq(key, STR("discarded samples"));
}

// Finds the leftmost `<delay> <count> @<addresses>` in the line. The blanks between the two numbers
// may be missing; then the last digit is the count.
static bool contention_find_sample(struct str line, struct str *delay, struct str *count,
                                   struct str *addresses)
{
    for (size_t i = 0; i < line.n; i++) {
        struct scan s = scan_from(line, i);
        *delay = scan_run(&s, scan_is_digit);
        if (delay->n == 0)
            continue;
        i += delay->n - 1;
        struct scan after = s;
        scan_blanks(&after);
        *count = scan_run(&after, scan_is_digit);
        if (count->n == 0 && delay->n > 1) {
            after = s;
            *count = (struct str){delay->p + --delay->n, 1};
        }
        if (count->n && scan_text(&after, STR(" @"))) {
            *addresses = scan_addresses(&after);
            return true;
        }
    }
    return false;
}

static enum legacy_result contention_read_sample(struct legacy *l, const struct contention *c,
                                                 struct str line, size_t line_number)
{
    struct str delay_text, count_text, addresses;
    if (!contention_find_sample(line, &delay_text, &count_text, &addresses))
        return LEGACY_NOT;
    int64_t delay, count;
    if (!str_to_i64(delay_text, &delay) || !str_to_i64(count_text, &count)) {
        err_set(l->e, "malformed sample: line %zu: a number has more than 63 bits", line_number);
        return LEGACY_BAD;
    }
    // Scale by the sampling period. Delays are in cycles if the cycle rate is known.
    if (c->period > 0) {
        if (c->cycles_per_second > 0) {
            double per_nanosecond = (double)c->cycles_per_second / 1e9;
            delay = scan_truncate((double)delay * (double)c->period / per_nanosecond);
        }
        count = scan_mul(count, c->period);
    }
    if (!legacy_add_addresses(l, addresses, 1, line_number))
        return LEGACY_BAD;
    legacy_add_sample(l, (int64_t[]){count, delay});
    return LEGACY_OK;
}

enum legacy_result legacy_read_contention(struct legacy *l)
{
    struct scan_lines lines = {.rest = l->input};
    if (!scan_next(&lines) || !(str_starts(lines.line, STR("--- contentionz ")) ||
                                str_starts(lines.line, STR("--- mutex:")) ||
                                str_starts(lines.line, STR("--- contention:"))))
        return LEGACY_NOT;
    struct contention c = {.period = 1};
    while (scan_next(&lines)) {
        struct str line = scan_trim(lines.line);
        if (scan_is_blank_or_comment(line))
            continue;
        size_t equals = str_find(line, STR("="), 0);
        if (str_starts(line, STR("---")) || equals == SIZE_MAX)
            break;
        if (!contention_read_attribute(&c, scan_trim(str_from_to(line, 0, equals)),
                                       scan_trim(str_from_to(line, equals + 1, line.n))))
            return LEGACY_NOT;
    }
    legacy_begin(l, STR("contentions"), STR("count"), c.period);
    l->b.p->duration_nanos = c.duration;
    model_build_type(&l->b, STR("contentions"), STR("count"));
    model_build_type(&l->b, STR("delay"), STR("nanoseconds"));
    do {
        struct str line = scan_trim(lines.line);
        if (str_starts(line, STR("---")))
            break;
        if (scan_is_blank_or_comment(line))
            continue;
        enum legacy_result result = contention_read_sample(l, &c, line, lines.number);
        if (result != LEGACY_OK)
            return result;
    } while (scan_next(&lines));
    legacy_read_map(l, &lines);
    return LEGACY_OK;
}
