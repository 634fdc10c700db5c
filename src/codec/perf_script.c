#include "model/builder.h"
#include "codec/codec.h"
#include "codec/detect.h"
#include "codec/maps.h"
#include "codec/scan.h"

// The output of `perf script`:
//
//     comm  pid/tid [cpu] time: period event:
//     \t  address symbol+0xoffset (binary)
//     \t  address symbol+0xoffset (inlined)
//
// Frames are listed leaf first and end with an empty line. The options of perf decide whether pid,
// cpu, time and period are present. Without stacks, the frame follows the event on the same line.
enum { MAX_EVENTS = 64 };

struct heading {
    struct str comm, event;
    struct str rest; // text after the event: a frame, or empty
    int64_t pid, tid, period, time;
    bool has_pid, has_period, has_time;
};

static bool is_token_char(char c)
{
    return c != ' ' && c != '\t';
}

static struct str next_token(struct scan *s)
{
    while (s->at < s->end && !is_token_char(*s->at))
        s->at++;
    return scan_run(s, is_token_char);
}

// `<tid>` or `<pid>/<tid>`. perf prints -1 for a thread that no longer exists.
static bool parse_ids(struct str token, struct heading *h)
{
    size_t slash = str_find(token, STR("/"), 0);
    h->has_pid = slash != SIZE_MAX;
    if (!h->has_pid)
        return str_to_i64(token, &h->tid);
    return str_to_i64(str_from_to(token, 0, slash), &h->pid) &&
           str_to_i64(str_from_to(token, slash + 1, token.n), &h->tid);
}

// Parses `<seconds>.<fraction>:` to nanoseconds.
static bool parse_time(struct str token, int64_t *nanoseconds)
{
    if (token.n < 2 || token.p[token.n - 1] != ':')
        return false;
    token.n--;
    size_t dot = str_find(token, STR("."), 0);
    if (dot == SIZE_MAX || dot + 1 == token.n)
        return false;
    int64_t seconds, fraction;
    struct str digits = str_from_to(token, dot + 1, token.n);
    if (digits.n > 9 || !scan_is_digit(token.p[0]) || !scan_is_digit(digits.p[0]) ||
        !str_to_i64(str_from_to(token, 0, dot), &seconds) || !str_to_i64(digits, &fraction))
        return false;
    for (size_t i = digits.n; i < 9; i++)
        fraction *= 10;
    return !__builtin_mul_overflow(seconds, (int64_t)1000000000, &seconds) &&
           !__builtin_add_overflow(seconds, fraction, nanoseconds);
}

static bool is_cpu(struct str token)
{
    uint64_t cpu;
    return token.n > 2 && token.p[0] == '[' && token.p[token.n - 1] == ']' &&
           str_to_u64(str_from_to(token, 1, token.n - 1), 10, &cpu);
}

// Interrupt state that some versions print, such as d..1.
static bool is_irq_flags(struct str token)
{
    return token.n >= 4 && token.n <= 6 && memchr(token.p, '.', token.n) &&
           token.p[token.n - 1] != ':';
}

// cycles:ppp is the event cycles with modifiers. sched:sched_switch has no modifiers.
static struct str without_modifiers(struct str event)
{
    size_t at = event.n;
    while (at > 0 && memchr("ukhGHpPSDWIeb", event.p[at - 1], 13))
        at--;
    return at > 1 && at < event.n && event.p[at - 1] == ':' ? str_from_to(event, 0, at - 1) : event;
}

// `[period] event: rest`
static bool parse_event(struct scan s, struct heading *h)
{
    struct str token = next_token(&s);
    h->has_period = str_to_i64(token, &h->period);
    if (h->has_period)
        token = next_token(&s);
    if (token.n < 2 || token.p[token.n - 1] != ':')
        return false;
    h->event = without_modifiers(str_from_to(token, 0, token.n - 1));
    h->rest = (struct str){s.at, (size_t)(s.end - s.at)};
    return h->event.n > 0;
}

// A command name may contain blanks and numbers. If there is a time, the ids precede it and the
// cpu. Otherwise the ids are the first token that parses as ids and is followed by an event.
static bool parse_heading(struct str line, struct heading *h)
{
    struct scan s = scan_from(line, 0);
    struct str before[3] = {{0}}; // the preceding tokens, nearest first
    for (struct str token; (token = next_token(&s)).n > 0;) {
        *h = (struct heading){0};
        if (parse_time(token, &h->time)) {
            int at = 0;
            if (is_irq_flags(before[at]))
                at++;
            if (is_cpu(before[at]))
                at++;
            struct str ids = before[at];
            h->has_time = true;
            h->comm = str_trim((struct str){line.p, ids.n ? (size_t)(ids.p - line.p) : 0});
            return h->comm.n && parse_ids(ids, h) && parse_event(s, h);
        }
        before[2] = before[1];
        before[1] = before[0];
        before[0] = token;
    }
    s = scan_from(line, 0);
    next_token(&s);
    for (struct str token; (token = next_token(&s)).n > 0;) {
        *h = (struct heading){0};
        if (!parse_ids(token, h))
            continue;
        struct scan after = s, cpu = s;
        if (is_cpu(next_token(&cpu)))
            after = cpu;
        h->comm = str_trim((struct str){line.p, (size_t)(token.p - line.p)});
        if (parse_event(after, h))
            return true;
    }
    return false;
}

struct frame {
    uint64_t address;
    struct str symbol, binary; // empty: unknown
    bool is_inlined;
};

// Returns the position of the parenthesis that the end of s closes, or SIZE_MAX.
static size_t last_group(struct str s)
{
    size_t depth = 0;
    for (size_t i = s.n; i-- > 0;) {
        depth += s.p[i] == ')';
        if (s.p[i] == '(' && --depth == 0)
            return i;
        if (depth == 0)
            break;
    }
    return SIZE_MAX;
}

static struct str without_offset(struct str symbol)
{
    size_t at = symbol.n;
    while (at > 0 && scan_is_hex(symbol.p[at - 1]))
        at--;
    return at < symbol.n && at >= 3 && memcmp(symbol.p + at - 3, "+0x", 3) == 0
               ? str_from_to(symbol, 0, at - 3)
               : symbol;
}

// `address [symbol[+0xoffset]] [(binary)]`
static bool parse_frame(struct str line, struct frame *frame)
{
    *frame = (struct frame){0};
    struct scan s = scan_from(line, 0);
    struct str address = next_token(&s);
    if (str_starts(address, STR("0x")))
        address = str_from_to(address, 2, address.n);
    if (!str_to_u64(address, 16, &frame->address))
        return false;
    struct str rest = str_trim((struct str){s.at, (size_t)(s.end - s.at)});
    size_t group = last_group(rest);
    // A parenthesis without a blank before it belongs to the symbol.
    if (group != SIZE_MAX && (group == 0 || rest.p[group - 1] == ' ')) {
        struct str binary = str_from_to(rest, group + 1, rest.n - 1);
        frame->is_inlined = str_eq(binary, STR("inlined"));
        if (!frame->is_inlined && !str_eq(binary, STR("[unknown]")))
            frame->binary = binary;
        rest = str_trim(str_from_to(rest, 0, group));
    }
    if (!str_eq(rest, STR("[unknown]")))
        frame->symbol = without_offset(rest);
    return true;
}

struct reader {
    struct arena *arena;
    struct err *e;
    struct model_builder b;
    struct str events[MAX_EVENTS];
    uint32_t n_events;
    struct hash_table binaries;
    // The sample being read.
    bool in_sample;
    struct heading heading;
    uint32_t *frames;
    size_t n_frames, cap_frames;
    // The lines of the current address: inlined calls precede the frame that contains them.
    struct model_line *lines;
    size_t n_lines, cap_lines;
    struct frame last; // the latest frame, not yet added as a location
    bool has_last;
    int64_t first_time, last_time;
    bool has_time;
};

static uint32_t event_column(const struct reader *r, struct str event)
{
    for (uint32_t i = 0; i < r->n_events; i++)
        if (str_eq(r->events[i], event))
            return i + 1;
    return 0;
}

enum line_kind { LINE_EMPTY, LINE_COMMENT, LINE_FRAME, LINE_HEADING };

static enum line_kind line_kind_of(struct str line, bool in_sample)
{
    if (str_trim(line).n == 0)
        return LINE_EMPTY;
    if (in_sample && !is_token_char(line.p[0]))
        return LINE_FRAME;
    return line.p[0] == '#' ? LINE_COMMENT : LINE_HEADING;
}

// Types must be known before the first sample. Each event with periods gets one.
static int collect_events(struct reader *r, struct scan_lines lines)
{
    bool in_sample = false;
    while (scan_next(&lines)) {
        enum line_kind kind = line_kind_of(lines.line, in_sample);
        in_sample = in_sample && kind != LINE_EMPTY;
        struct heading h;
        // Ignore invalid headings here; reading the samples reports them.
        if (kind != LINE_HEADING || !parse_heading(lines.line, &h))
            continue;
        struct frame frame;
        in_sample = !parse_frame(h.rest, &frame);
        if (!h.has_period || event_column(r, h.event))
            continue;
        if (r->n_events == MAX_EVENTS)
            return err_set(r->e, "perf script: line %zu: more than %d different events",
                           lines.number, MAX_EVENTS);
        r->events[r->n_events++] = h.event;
    }
    return 0;
}

static void perf_add_types(struct reader *r)
{
    model_build_type(&r->b, STR("samples"), STR("count"));
    for (uint32_t i = 0; i < r->n_events; i++)
        model_build_type(&r->b, r->events[i],
                         str_ends(r->events[i], STR("clock")) ? STR("nanoseconds") : STR("count"));
    // Make the first event with periods the default instead of the number of samples.
    if (r->n_events)
        r->b.p->default_type = r->b.p->types[1].type;
}

static uint32_t perf_mapping_of(struct reader *r, struct str binary)
{
    if (binary.n == 0)
        return MODEL_NONE;
    struct model_profile *p = r->b.p;
    uint32_t file = model_build_string(&r->b, binary);
    uint64_t hash = hash_mix(file, 0);
    for (struct hash_probe at = hash_find(&r->binaries, hash); hash_hit(&r->binaries, &at);
         hash_next(&r->binaries, &at))
        if (p->mappings[at.item].file == file)
            return at.item;
    uint32_t made =
        model_build_mapping(&r->b, (struct model_mapping){.file = file, .has_functions = true});
    hash_add(&r->binaries, r->arena, hash, made);
    return made;
}

// Turns the collected lines, which have one address, into a location.
static void perf_end_frame(struct reader *r)
{
    if (!r->has_last)
        return;
    r->has_last = false;
    uint32_t mapping = perf_mapping_of(r, r->last.binary);
    if (mapping != MODEL_NONE && r->n_lines > 1)
        r->b.p->mappings[mapping].has_inline_frames = true;
    r->frames = arena_push(r->arena, r->frames, r->n_frames, &r->cap_frames, sizeof *r->frames);
    r->frames[r->n_frames++] =
        model_build_location(&r->b, mapping, r->last.address, r->lines, (uint32_t)r->n_lines);
    r->n_lines = 0;
}

static void perf_add_frame(struct reader *r, struct frame frame)
{
    if (r->has_last && !(r->last.is_inlined && r->last.address == frame.address))
        perf_end_frame(r);
    if (frame.symbol.n) {
        uint32_t name = model_build_string(&r->b, frame.symbol);
        r->lines = arena_push(r->arena, r->lines, r->n_lines, &r->cap_lines, sizeof *r->lines);
        r->lines[r->n_lines++] =
            (struct model_line){.function = model_build_function(&r->b, name, name, 0, 0)};
    }
    r->last = frame;
    r->has_last = true;
}

// Parses `  file:line` after a frame, which perf prints if source lines are requested. Ignores
// other text, such as binary[address] if perf found no line.
static void perf_add_source(struct reader *r, struct str text)
{
    text = str_trim(text);
    const char *colon = memrchr(text.p, ':', text.n);
    int64_t line;
    if (!colon || colon == text.p || !r->has_last || r->last.symbol.n == 0)
        return;
    size_t at = (size_t)(colon - text.p);
    struct str number = str_from_to(text, at + 1, text.n), file = str_from_to(text, 0, at);
    if (!str_to_i64(number, &line) || line <= 0 || str_eq(file, STR("??")))
        return;
    struct model_line *last = &r->lines[r->n_lines - 1];
    uint32_t name = r->b.p->functions[last->function].name;
    last->function = model_build_function(&r->b, name, name, model_build_string(&r->b, file), 0);
    last->line = line;
    uint32_t mapping = perf_mapping_of(r, r->last.binary);
    if (mapping != MODEL_NONE) {
        r->b.p->mappings[mapping].has_filenames = true;
        r->b.p->mappings[mapping].has_line_numbers = true;
    }
}

static void perf_end_sample(struct reader *r)
{
    if (!r->in_sample)
        return;
    r->in_sample = false;
    perf_end_frame(r);
    const struct heading *h = &r->heading;
    int64_t values[MAX_EVENTS + 1] = {1};
    if (h->has_period)
        values[event_column(r, h->event)] = h->period;
    model_build_label(&r->b, STR("comm"), h->comm);
    if (h->has_pid)
        model_build_number_label(&r->b, STR("pid"), h->pid, STR(""));
    model_build_number_label(&r->b, STR("tid"), h->tid, STR(""));
    model_build_sample(&r->b, r->frames, r->n_frames, values);
    r->n_frames = 0;
    if (h->has_time) {
        r->first_time = !r->has_time || h->time < r->first_time ? h->time : r->first_time;
        r->last_time = !r->has_time || h->time > r->last_time ? h->time : r->last_time;
        r->has_time = true;
    }
}

static int read_frame_line(struct reader *r, const struct scan_lines *lines)
{
    struct frame frame;
    if (parse_frame(lines->line, &frame)) {
        perf_add_frame(r, frame);
        return 0;
    }
    if (lines->line.p[0] == ' ') {
        perf_add_source(r, lines->line);
        return 0;
    }
    return err_set(r->e, "perf script: line %zu: expected `address symbol (binary)`, found `%s`",
                   lines->number, scan_quote(lines->line).text);
}

static int read_heading_line(struct reader *r, const struct scan_lines *lines)
{
    perf_end_sample(r);
    if (!parse_heading(lines->line, &r->heading))
        return err_set(r->e,
                       "perf script: line %zu: expected `comm pid [cpu] time: period event:`, "
                       "found `%s`",
                       lines->number, scan_quote(lines->line).text);
    struct model_profile *p = r->b.p;
    const struct heading *h = &r->heading;
    if (h->has_period && p->period == 0) {
        p->period = h->period;
        p->period_type = p->types[event_column(r, h->event)];
    }
    r->in_sample = true;
    struct frame frame;
    if (parse_frame(h->rest, &frame)) {
        perf_add_frame(r, frame);
        perf_end_sample(r);
    }
    return 0;
}

static struct model_profile *perf_read_script(struct reader *r, struct scan_lines *lines)
{
    if (collect_events(r, *lines))
        return NULL;
    model_build(&r->b, r->arena);
    r->lines = arena_push(r->arena, NULL, 0, &r->cap_lines, sizeof *r->lines);
    hash_init(&r->binaries, r->arena, 64);
    perf_add_types(r);
    while (scan_next(lines)) {
        int result = 0;
        switch (line_kind_of(lines->line, r->in_sample)) {
        case LINE_EMPTY:
            perf_end_sample(r);
            break;
        case LINE_FRAME:
            result = read_frame_line(r, lines);
            break;
        case LINE_HEADING:
            result = read_heading_line(r, lines);
            break;
        case LINE_COMMENT:
            break;
        }
        if (result)
            return NULL;
    }
    perf_end_sample(r);
    if (r->has_time)
        r->b.p->duration_nanos = r->last_time - r->first_time;
    return r->b.p;
}

struct model_profile *codec_read_perf_script(struct arena *arena, const uint8_t *data, size_t n,
                                             struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    struct reader *r = arena_alloc(arena, sizeof *r);
    r->arena = arena;
    r->e = e;
    struct scan_lines lines = {.rest = n ? (struct str){(const char *)data, n} : STR("")};
    struct model_profile *p = perf_read_script(r, &lines);
    arena_try_end(arena);
    return p;
}

bool codec_looks_like_perf_script(struct str head)
{
    struct scan_lines lines = {.rest = head.n ? head : STR("")};
    struct heading h;
    struct frame frame;
    while (scan_next(&lines)) {
        struct str line = lines.line;
        if (str_trim(line).n == 0 || line.p[0] == '#')
            continue;
        if (!parse_heading(line, &h))
            return false;
        if (parse_frame(h.rest, &frame))
            return true;
        // Without a time, require a stack; otherwise any text `word 1 word:` would match.
        if (!scan_next(&lines) || str_trim(lines.line).n == 0)
            return h.has_time;
        return !is_token_char(lines.line.p[0]) && parse_frame(lines.line, &frame);
    }
    return false;
}
