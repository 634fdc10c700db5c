// traces, raw and comments: every sample.
#include "report/formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model/stream.h"
#include "model/units.h"

void report_comments(struct report *r, struct out *out)
{
    for (uint32_t i = 0; i < r->p->n_comments; i++) {
        out_str(out, model_str(r->p, r->p->comments[i]));
        out_char(out, '\n');
    }
}

// Builds the text of labels: each key becomes a piece with all its values; complete pieces are
// sorted and joined. Each thread has one.
struct label_text {
    const struct report *r;
    const struct model_profile *p; // the window
    struct arena *arena;
    struct out scratch, text; // pieces; rendered sets
    size_t piece;             // where the current piece begins in scratch
    struct str *pieces;
    size_t n, cap;
    size_t window; // first sample + 1
    // By label set: the window that it was rendered for, and where its text is.
    struct rendered_set {
        size_t window, from, n;
    } * rendered;
    size_t cap_rendered;
};

static void sort_and_join(struct label_text *t, struct out *out, const char *separator)
{
    const char *at = t->scratch.p;
    for (size_t i = 0; i < t->n; at += t->pieces[i++].n)
        t->pieces[i].p = at;
    if (t->n)
        qsort(t->pieces, t->n, sizeof *t->pieces, str_compare);
    for (size_t i = 0; i < t->n; i++) {
        if (i)
            out_text(out, separator);
        out_str(out, t->pieces[i]);
    }
    t->n = t->piece = t->scratch.n = 0;
}

static void end_piece(struct label_text *t)
{
    t->pieces = arena_push(t->arena, t->pieces, t->n, &t->cap, sizeof *t->pieces);
    t->pieces[t->n++] = (struct str){NULL, t->scratch.n - t->piece};
    t->piece = t->scratch.n;
}

static bool units_given(const struct model_profile *p, const struct model_label_set *set,
                        uint32_t key)
{
    for (uint32_t i = 0; i < set->n; i++) {
        const struct model_label *l = &p->labels[set->first + i];
        if (l->is_number && l->key == key && l->unit)
            return true;
    }
    return false;
}

// How to write labels: one piece per key, its values between before and after.
struct label_style {
    size_t key_width;
    const char *before, *after;
    void (*number)(struct label_text *t, const struct model_label *l, bool with_unit);
};

static void trace_number(struct label_text *t, const struct model_label *l, bool with_unit)
{
    char text[256];
    struct str unit = model_str(t->p, t->r->o.label_units[l->key]);
    out_write(&t->scratch, text, units_label(text, sizeof text, l->number, unit, STR("auto")));
}

static void raw_number(struct label_text *t, const struct model_label *l, bool with_unit)
{
    out_i64(&t->scratch, l->number);
    if (with_unit) {
        out_char(&t->scratch, ' ');
        out_str(&t->scratch, model_str(t->p, l->unit));
    }
}

static const struct label_style trace_style = {10, ":  ", "\n", trace_number};
static const struct label_style raw_style = {0, ":[", "]", raw_number};

static void put_label_pieces(struct label_text *t, const struct model_label_set *set, bool numbers,
                             const struct label_style *style)
{
    const struct model_profile *p = t->p;
    for (uint32_t i = 0; i < set->n;) {
        const struct model_label *l = &p->labels[set->first + i];
        uint32_t key = l->key;
        if (l->is_number != numbers) {
            i++;
            continue;
        }
        bool with_units = numbers && units_given(p, set, key);
        out_right(&t->scratch, model_str(p, key), style->key_width);
        out_text(&t->scratch, style->before);
        for (bool first = true; i < set->n; i++, first = false) {
            l = &p->labels[set->first + i];
            if (l->key != key || l->is_number != numbers)
                break;
            if (!first)
                out_char(&t->scratch, ' ');
            if (numbers)
                style->number(t, l, with_units);
            else
                out_str(&t->scratch, model_str(p, l->str));
        }
        out_text(&t->scratch, style->after);
        end_piece(t);
    }
}

// The text of a sample's labels, rendered once per label set of the window.
static struct str sample_labels_text(struct label_text *t, size_t sample,
                                     void (*render)(struct label_text *,
                                                    const struct model_label_set *, struct out *))
{
    const struct model_profile *p = t->p;
    if (!p->label_set)
        return STR("");
    uint32_t set = p->label_set[sample];
    struct rendered_set *rendered = &t->rendered[set];
    if (rendered->window != t->window) {
        rendered->window = t->window;
        rendered->from = t->text.n;
        render(t, &p->label_sets[set], &t->text);
        rendered->n = t->text.n - rendered->from;
    }
    return (struct str){t->text.p + rendered->from, rendered->n};
}

static void render_trace_labels(struct label_text *t, const struct model_label_set *set,
                                struct out *out)
{
    put_label_pieces(t, set, false, &trace_style);
    sort_and_join(t, out, "");
    put_label_pieces(t, set, true, &trace_style);
    sort_and_join(t, out, "");
}

static void render_raw_labels(struct label_text *t, const struct model_label_set *set,
                              struct out *out)
{
    for (int numbers = 0; numbers < 2; numbers++) {
        put_label_pieces(t, set, numbers, &raw_style);
        if (t->n) {
            out_text(out, "                ");
            sort_and_join(t, out, " ");
            out_char(out, '\n');
        }
    }
}

// A report that writes every sample.
struct sample_listing {
    const struct report *r;
    struct out *out;
    const struct str *locations;              // their text
    struct label_text *labels[PARALLEL_MOST]; // by worker
};

static void take_listing(void *context, struct str text)
{
    struct sample_listing *listing = context;
    out_str(listing->out, text);
}

static struct label_text *begin_label_text(struct sample_listing *listing,
                                           struct parallel_worker *worker,
                                           const struct model_profile *window, size_t first)
{
    struct label_text **mine = &listing->labels[worker->index];
    if (!*mine) {
        *mine = arena_alloc(worker->arena, sizeof **mine);
        (*mine)->r = listing->r;
        (*mine)->arena = worker->arena;
        out_init_arena(&(*mine)->scratch, worker->arena);
        out_init_arena(&(*mine)->text, worker->arena);
    }
    struct label_text *t = *mine;
    t->p = window;
    t->window = first + 1;
    t->text.n = 0;
    if (window->n_label_sets > t->cap_rendered) {
        t->cap_rendered = (size_t)window->n_label_sets + window->n_label_sets / 4;
        t->rendered = arena_array(worker->arena, t->cap_rendered, sizeof *t->rendered);
    }
    return t;
}

// Renders the lines of each location as they appear in a trace. Where a trace begins, the value
// replaces the first ten columns, which are blank.
static struct str *render_locations(struct graph *g)
{
    const struct model_profile *p = g->p;
    struct str *texts = arena_array(g->arena, p->n_locations + 1, sizeof *texts);
    struct out text;
    out_init_arena(&text, g->arena);
    for (size_t i = 0; i < g->n_nodes; i++)
        g->nodes[i].name = node_printable_name(g, &g->nodes[i].info);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        text.n = 0;
        for (uint32_t k = g->first_node[i]; k < g->first_node[i + 1]; k++) {
            out_spaces(&text, 13);
            out_str(&text, g->nodes[g->location_nodes[k]].name);
            out_text(&text, k + 1 != g->first_node[i + 1] ? " (inline)\n" : "\n");
        }
        texts[i] = (struct str){arena_copy(g->arena, text.p, text.n), text.n};
    }
    return texts;
}

static const char trace_separator[] =
    "-----------+-------------------------------------------------------\n";

static void write_traces(void *context, struct parallel_worker *worker,
                         const struct model_profile *p, size_t first, struct out *out)
{
    struct sample_listing *listing = context;
    const struct report *r = listing->r;
    const struct str *texts = listing->locations;
    struct label_text *labels = begin_label_text(listing, worker, p, first);
    for (size_t s = 0; s < p->n_samples; s++) {
        if (p->stack_len[s] == 0)
            continue;
        out_write(out, trace_separator, sizeof trace_separator - 1);
        out_str(out, sample_labels_text(labels, s, render_trace_labels));
        const int64_t *values = model_values(p, s);
        int64_t v = values[r->o.type], d = r->o.mean ? values[0] : 0;
        report_put_value(r, out, graph_value(v, d), 10);
        const uint32_t *frames = model_stack(p, s);
        out_str(out, str_from_to(texts[frames[0]], 10, texts[frames[0]].n));
        for (uint32_t i = 1; i < p->stack_len[s]; i++)
            out_str(out, texts[frames[i]]);
    }
}

void report_traces(struct report *r, struct out *out)
{
    struct sample_listing *listing = arena_alloc(r->arena, sizeof *listing);
    listing->r = r;
    listing->out = out;
    listing->locations = render_locations(graph_new_nodes(r));
    out_str(out, report_profile_labels(r));
    out_char(out, '\n');
    model_each_in_order(r->p, r->arena, MODEL_WITH_LABELS, write_traces, take_listing, listing);
    out_write(out, trace_separator, sizeof trace_separator - 1);
}

// --- raw ---

// Removes trailing zeros.
static void cut_zeros(char *digits)
{
    size_t n = strlen(digits);
    while (n > 0 && digits[n - 1] == '0')
        digits[--n] = '\0';
}

// Formats like Go's time.Duration.String.
static size_t duration_text(char *text, size_t size, int64_t nanos)
{
    uint64_t u = nanos < 0 ? 0 - (uint64_t)nanos : (uint64_t)nanos;
    const char *sign = nanos < 0 ? "-" : "";
    if (u == 0)
        return (size_t)snprintf(text, size, "0s");
    uint64_t scale = u < 1000 ? 1 : u < 1000000 ? 1000 : u < 1000000000 ? 1000000 : 1000000000;
    const char *unit = scale == 1 ? "ns" : scale == 1000 ? "µs" : scale == 1000000 ? "ms" : "s";
    uint64_t whole = u / scale, fraction = u % scale;
    char digits[16] = "";
    if (fraction) {
        int width = scale == 1000 ? 3 : scale == 1000000 ? 6 : 9;
        snprintf(digits, sizeof digits, ".%0*llu", width, (unsigned long long)fraction);
        cut_zeros(digits);
    }
    if (scale < 1000000000 || whole < 60)
        return (size_t)snprintf(text, size, "%s%llu%s%s", sign, (unsigned long long)whole, digits,
                                unit);
    unsigned long long seconds = whole % 60, minutes = whole / 60 % 60, hours = whole / 3600;
    if (hours == 0)
        return (size_t)snprintf(text, size, "%s%llum%llu%ss", sign, minutes, seconds, digits);
    return (size_t)snprintf(text, size, "%s%lluh%llum%llu%ss", sign, hours, minutes, seconds,
                            digits);
}

// Formats like Go's time.Time.String without the monotonic part.
static void put_go_time(struct out *out, int64_t nanos)
{
    int64_t rest = nanos % 1000000000, seconds = nanos / 1000000000;
    if (rest < 0) {
        rest += 1000000000;
        seconds--;
    }
    struct tm tm;
    char text[64], fraction[16] = "";
    localtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
    if (rest) {
        snprintf(fraction, sizeof fraction, ".%09lld", (long long)rest);
        cut_zeros(fraction);
    }
    out_printf(out, "Time: %s%s", text, fraction);
    strftime(text, sizeof text, " %z %Z", &tm);
    out_printf(out, "%s\n", text);
}

static void raw_header(const struct report *r, struct out *out)
{
    const struct model_profile *p = r->p;
    for (uint32_t i = 0; i < p->n_comments; i++) {
        out_text(out, "Comment: ");
        out_str(out, model_str(p, p->comments[i]));
        out_char(out, '\n');
    }
    if (p->doc_url) {
        out_text(out, "Doc: ");
        out_str(out, model_str(p, p->doc_url));
        out_char(out, '\n');
    }
    out_text(out, "PeriodType: ");
    out_str(out, model_str(p, p->period_type.type));
    out_char(out, ' ');
    out_str(out, model_str(p, p->period_type.unit));
    out_printf(out, "\nPeriod: %lld\n", (long long)p->period);
    if (p->time_nanos)
        put_go_time(out, p->time_nanos);
    if (p->duration_nanos) {
        // Like pprof, cut to four characters.
        char text[64];
        size_t n = duration_text(text, sizeof text, p->duration_nanos), end = 0;
        for (size_t chars = 0; end < n; end++) {
            if (((unsigned char)text[end] & 0xc0) != 0x80 && chars++ == 4)
                break;
        }
        out_printf(out, "Duration: %.*s\n", (int)end, text);
    }
    out_text(out, "Samples:\n");
    struct out types;
    out_init_arena(&types, r->arena);
    for (uint32_t i = 0; i < p->n_types; i++) {
        struct str type = model_str(p, p->types[i].type);
        out_str(&types, type);
        out_char(&types, '/');
        out_str(&types, model_str(p, p->types[i].unit));
        out_text(&types, str_eq(type, model_str(p, p->default_type)) ? "[dflt] " : " ");
    }
    out_str(out, str_trim(out_result(&types)));
    out_char(out, '\n');
}

static void put_right_i64(struct out *out, int64_t value, size_t width)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)value);
    out_right(out, (struct str){text, (size_t)n}, width);
}

static void raw_location(const struct model_profile *p, const struct model_location *l,
                         struct out *out)
{
    out_printf(out, "%6llu: %s%llx ", (unsigned long long)l->id, "0x",
               (unsigned long long)l->address);
    if (l->mapping != MODEL_NONE)
        out_printf(out, "M=%llu ", (unsigned long long)p->mappings[l->mapping].id);
    if (l->is_folded)
        out_text(out, "[F] ");
    if (l->n_lines == 0)
        out_char(out, '\n');
    for (uint32_t i = 0; i < l->n_lines; i++) {
        const struct model_line *line = &p->lines[l->first_line + i];
        const struct model_function *f = &p->functions[line->function];
        if (i)
            out_text(out, "             ");
        out_str(out, model_str(p, f->name));
        out_char(out, ' ');
        out_str(out, model_str(p, f->filename));
        out_printf(out, ":%lld:%lld s=%lld", (long long)line->line, (long long)line->column,
                   (long long)f->start_line);
        if (f->name != f->system_name) {
            out_char(out, '(');
            out_str(out, model_str(p, f->system_name));
            out_char(out, ')');
        }
        out_char(out, '\n');
    }
}

static void raw_mapping(const struct model_profile *p, const struct model_mapping *m,
                        struct out *out)
{
    out_printf(out, "%llu: 0x%llx/0x%llx/0x%llx ", (unsigned long long)m->id,
               (unsigned long long)m->start, (unsigned long long)m->limit,
               (unsigned long long)m->offset);
    out_str(out, model_str(p, m->file));
    out_char(out, ' ');
    out_str(out, model_str(p, m->build_id));
    out_printf(out, " %s%s%s%s\n", m->has_functions ? "[FN]" : "", m->has_filenames ? "[FL]" : "",
               m->has_line_numbers ? "[LN]" : "", m->has_inline_frames ? "[IN]" : "");
}

static void write_raw_samples(void *context, struct parallel_worker *worker,
                              const struct model_profile *p, size_t first, struct out *out)
{
    struct sample_listing *listing = context;
    struct label_text *labels = begin_label_text(listing, worker, p, first);
    for (size_t s = 0; s < p->n_samples; s++) {
        for (uint32_t t = 0; t < p->n_types; t++) {
            out_char(out, ' ');
            put_right_i64(out, model_values(p, s)[t], 10);
        }
        out_text(out, ": ");
        const uint32_t *frames = model_stack(p, s);
        for (uint32_t i = 0; i < p->stack_len[s]; i++)
            out_str(out, listing->locations[frames[i]]);
        out_char(out, '\n');
        out_str(out, sample_labels_text(labels, s, render_raw_labels));
    }
}

void report_raw(struct report *r, struct out *out)
{
    const struct model_profile *p = r->p;
    struct str *ids = arena_array(r->arena, p->n_locations + 1, sizeof *ids);
    for (uint32_t i = 0; i < p->n_locations; i++)
        ids[i] = str_from(arena_printf(r->arena, "%llu ", (unsigned long long)p->locations[i].id));
    struct sample_listing *listing = arena_alloc(r->arena, sizeof *listing);
    listing->r = r;
    listing->out = out;
    listing->locations = ids;
    raw_header(r, out);
    model_each_in_order(p, r->arena, MODEL_WITH_LABELS, write_raw_samples, take_listing, listing);
    out_text(out, "Locations\n");
    for (uint32_t i = 0; i < p->n_locations; i++)
        raw_location(p, &p->locations[i], out);
    out_text(out, "Mappings\n");
    for (uint32_t i = 0; i < p->n_mappings; i++)
        raw_mapping(p, &p->mappings[i], out);
}
