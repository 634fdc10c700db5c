// Flame graphs as kiln's own pages read them: with files, modules and inlined calls, which
// Pyroscope's do not tell, filtered as pprof filters, and as files to keep.
#include <math.h>

#include "codec/codec.h"
#include "codec/json.h"
#include "model/transform.h"
#include "report/flame.h"
#include "server/query_api.h"

// --- filters ---

struct notes {
    const char *items[8];
    size_t n;
};

static int compile_flame_filter(struct arena *arena, const char *name, struct str pattern,
                                struct model_regex **regex, struct err *e)
{
    *regex = pattern.n ? model_regex_new(arena, name, pattern, e) : NULL;
    return pattern.n && !*regex ? -1 : 0;
}

static void note_flame_warning(struct notes *notes, bool wanted, bool matched, const char *text)
{
    for (size_t i = 0; i < notes->n; i++)
        if (strcmp(notes->items[i], text) == 0)
            return;
    if (wanted && !matched)
        notes->items[notes->n++] = text;
}

static const struct model_profile *filter_flame(const struct model_profile *p,
                                                const struct flame_request *r, struct arena *arena,
                                                struct notes *notes, struct err *e)
{
    struct model_regex *focus, *ignore, *hide, *show, *from, *prune;
    bool matched[4] = {false};
    if (compile_flame_filter(arena, "focus", r->focus, &focus, e) ||
        compile_flame_filter(arena, "ignore", r->ignore, &ignore, e) ||
        compile_flame_filter(arena, "hide", r->hide, &hide, e) ||
        compile_flame_filter(arena, "show", r->show, &show, e) ||
        compile_flame_filter(arena, "show_from", r->show_from, &from, e) ||
        compile_flame_filter(arena, "prune_from", r->prune_from, &prune, e))
        return NULL;
    if (focus || ignore || hide || show) {
        p = model_filter_frames(p, focus, ignore, hide, show, matched, arena);
        note_flame_warning(notes, focus, matched[0], "Focus matched no samples");
        note_flame_warning(notes, ignore, matched[1], "Ignore matched no samples");
        note_flame_warning(notes, hide, matched[2], "Hide matched no frames");
        note_flame_warning(notes, show, matched[3], "Show matched no frames");
    }
    if (from) {
        p = model_show_from(p, from, &matched[0], arena);
        note_flame_warning(notes, true, matched[0], "Show from matched no frames");
    }
    return prune ? model_prune_from(p, prune, arena) : p;
}

// --- answers ---

static void write_about(struct out *out, const struct model_profile *p, uint32_t type,
                        const struct notes *notes)
{
    out_text(out, "{\"types\":");
    json_write_types(out, p);
    out_printf(out, ",\"type\":%u,\"notes\":[", type);
    for (size_t i = 0; i < notes->n; i++) {
        out_text(out, i ? "," : "");
        json_write_string(out, str_from(notes->items[i]));
    }
    out_text(out, "],\"flame\":");
}

// The difference as `pprof -diff_base` makes it: what is taken away carries a label.
static int write_pprof(struct call *c, const struct model_profile *const sides[2],
                       const double weights[2], struct err *e)
{
    struct arena *a = c->arena;
    struct model_profile *parts[2] = {arena_alloc(a, sizeof *parts[0]), NULL};
    *parts[0] = *sides[1];
    if (sides[0]) {
        double *ratios = arena_array(a, sides[0]->n_types + 1, sizeof *ratios);
        for (uint32_t i = 0; i < sides[0]->n_types; i++)
            ratios[i] = -1;
        parts[1] =
            model_set_label(model_scale(sides[0], ratios, a), STR("pprof::base"), STR("true"), a);
        if (model_make_compatible(parts, 2, a, e) || !(parts[0] = model_merge(parts, 2, a, e)))
            return -1;
    }
    if (weights[1] > 0 && !parts[0]->is_weighed)
        parts[0]->period = (int64_t)llround(weights[1]);
    return codec_write_pprof_gzip(parts[0], &c->x->body_out, e);
}

static int by_of(struct str text, enum report_flame_by *by, struct err *e)
{
    static const char *const names[] = {"functions", "files", "lines", "addresses"};
    *by = REPORT_FLAME_FUNCTIONS;
    for (size_t i = 0; text.n && i <= sizeof names / sizeof *names; i++) {
        if (i == sizeof names / sizeof *names)
            return err_set(e, "invalid by \"%.*s\"; expected functions, files, lines or addresses",
                           text.n < 40 ? (int)text.n : 40, text.p);
        *by = (enum report_flame_by)i;
        if (str_eq(text, str_from(names[i])))
            break;
    }
    return 0;
}

static bool wants_blocks(const struct flame_request *r)
{
    return str_eq(r->format, STR("blocks"));
}

// The profile in parts (model/blocks.h).
static int write_blocks(struct call *c, const struct model_profile *p, const char *text,
                        struct err *e)
{
    struct model_profile *q = model_profile_derive(p, c->arena);
    uint32_t comment = text ? model_intern(q->strings, str_from(text)) : 0;
    if (text) {
        q->comments = &comment;
        q->n_comments = 1;
    }
    return codec_write_pprof_gzip(q, &c->x->body_out, e);
}

int api_draw(struct call *c, const struct model_profile *sides[2], const struct flame_request *r,
             bool types, const double weights[2], const char *text, struct err *e)
{
    struct notes notes = {.n = 0};
    enum report_flame_by by;
    bool html = str_eq(r->format, STR("html")), pprof = str_eq(r->format, STR("pprof"));
    if (!html && !pprof && !wants_blocks(r) && r->format.n && !str_eq(r->format, STR("json")))
        return err_set(e, "invalid format \"%.*s\"; expected json, html, pprof or blocks",
                       r->format.n < 40 ? (int)r->format.n : 40, r->format.p);
    if (text)
        note_flame_warning(&notes, true, false, text);
    for (int i = 0; i < 2; i++)
        if (sides[i] && !(sides[i] = filter_flame(sides[i], r, c->arena, &notes, e)))
            return -1;
    // Of what is stored only one type is asked for; the others are its blocks.
    int type = types ? model_type_index(sides[1], r->type, e) : 0;
    if (type < 0 || by_of(r->by, &by, e))
        return -1;
    if (sides[0] &&
        model_type_index(sides[0], model_str(sides[1], sides[1]->types[type].type), e) < 0)
        return -1;
    bool file = html || pprof || wants_blocks(r);
    c->x->type = file ? "application/octet-stream" : "application/json";
    if (file)
        web_answer_header(c->x, "Content-Disposition", "attachment");
    if (wants_blocks(r))
        return write_blocks(c, sides[1], text, e);
    if (pprof)
        return write_pprof(c, sides, weights, e);
    struct report_flame_options o = {
        .type = (uint32_t)type,
        .all_types = types,
        .functions = r->path.n == 0,
        .reverse = r->reverse,
        .base = sides[0],
        .normalize = r->normalize,
        .max_nodes = r->max_nodes > 0 ? (uint32_t)r->max_nodes : 0,
        .by = by,
        .path = r->path.items,
        .n_path = r->path.n,
        .event_weights = {weights[0], weights[1]},
    };
    struct report_flame *flame = report_flame_new(c->arena, sides[1], &o, e);
    if (!flame)
        return -1;
    const char *title =
        r->title.n ? arena_printf(c->arena, "%.*s", (int)r->title.n, r->title.p) : "kiln";
    struct report_flame_style style = {.title = title};
    if (html) {
        report_flame_html(flame, &style, &c->x->body_out);
        return 0;
    }
    struct model_profile shown = *sides[1];
    if (!types)
        shown.n_types = 1;
    write_about(&c->x->body_out, &shown, (uint32_t)type, &notes);
    report_flame_json(flame, &style, &c->x->body_out);
    out_char(&c->x->body_out, '}');
    return 0;
}

// --- what is stored ---

static int sum_of(struct call *c, const struct merge_request *r, struct str type, double *sum)
{
    struct store_select select;
    struct store_answer answer = {0};
    struct query_series *series;
    struct err e = {""};
    size_t n;
    *sum = 0;
    if (api_select(c, type, r->selector, r->start, r->end, &select))
        return -1;
    struct query_series_options options = {.step = select.end - select.start + 1};
    int result =
        query_series(c->server->store, &select, &options, c->arena, &series, &n, &answer, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < series[i].n_points; k++)
            *sum += series[i].points[k].value;
    return 0;
}

// How much an event weighs on the average: what the type has by the number of samples.
static int mean_event_weight(struct call *c, const struct merge_request *r, double *weight)
{
    struct str counts = query_count_type(r->type, c->arena);
    double value, n;
    *weight = str_eq(counts, r->type) ? 1 : 0;
    if (!counts.n || *weight > 0)
        return 0;
    if (sum_of(c, r, counts, &n) || (n > 0 && sum_of(c, r, r->type, &value)))
        return -1;
    if (n > 0)
        *weight = value / n;
    return 0;
}

// Splits the two sides, unless their values are a state, which does not depend on load.
static int split_sides(struct call *c, struct store_select selects[2], struct query_blocks *blocks)
{
    struct store_answer answer = {0};
    struct err e = {""};
    for (int i = 0; i < 2; i++)
        if (store_type_is_gauge(selects[i].type))
            return 0;
    int result = query_blocks(c->server->store, selects, c->arena, blocks, &answer, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return -1;
    }
    for (int i = 0; i < 2; i++)
        selects[i].blocks = &blocks->sides[i];
    return 0;
}

static const char COUNTED[] =
    "Some profiles have no sample weights: each count is treated as a sample";

static void draw_stored(struct call *c)
{
    struct flame_request *r = call_connect(c, &flame_request_message);
    const struct model_profile *sides[2] = {NULL, NULL};
    double weights[2] = {0, 0};
    struct store_select selects[2];
    struct query_blocks blocks;
    const char *text = NULL;
    struct err e = {""};
    if (!r)
        return;
    struct merge_request *asked[2] = {r->base, r->profile};
    if (!asked[1]) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0,
                  "profile is missing; expected profileTypeID, labelSelector, start and end");
        return;
    }
    if (api_check_nodes(c, r->max_nodes))
        return;
    // Who does not ask what is noise, or for weights, is not made to wait for it.
    bool diff = asked[0] != NULL, pprof = str_eq(r->format, STR("pprof"));
    for (int i = 0; i < 2; i++) {
        if (asked[i] && api_merge_select(c, asked[i], &selects[i]))
            return;
        selects[i].with_variance = diff || pprof || wants_blocks(r);
    }
    if (diff && !pprof && split_sides(c, selects, &blocks))
        return;
    for (int i = 0; i < 2; i++) {
        struct store_stacks *stacks;
        struct model_profile *p;
        // Of what is sent in blocks, the other side is only there to be split alike.
        if (!asked[i] || (i == 0 && wants_blocks(r)))
            continue;
        if (api_stacks(c, &selects[i], &stacks) || api_profile_of(c, asked[i], stacks, 0, &p))
            return;
        sides[i] = p;
        if (diff && stacks->is_counted)
            text = COUNTED;
        if ((diff || pprof) && !p->is_weighed && mean_event_weight(c, asked[i], &weights[i]))
            return;
    }
    if (api_draw(c, sides, r, false, weights, text, &e)) {
        call_fail_input(c, CALL_INVALID_ARGUMENT, 0, &e);
        return;
    }
    call_finish(c);
}

void api_flame(struct call *c)
{
    struct str type = web_header(c->x, "Content-Type"), body;
    if (!str_eq(c->x->method, STR("POST"))) {
        web_answer_header(c->x, "Allow", "POST");
        call_empty(c, 405);
    } else if (call_is_type(type, "application/json")) {
        draw_stored(c);
    } else if (!call_body(c, &body)) {
        api_flame_files(c, body);
    }
}
