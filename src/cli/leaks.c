// kiln leaks: what grew between two heap profiles.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/diff.h"
#include "cli/flame.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/view.h"
#include "codec/json.h"
#include "model/transform.h"
#include "model/units.h"

struct leak {
    struct str name;
    struct diff_change bytes, objects;
};

struct leaks {
    const struct call *call;
    struct diff bytes, objects;
    bool has_objects;
    struct leak *rows; // grown functions, largest growth first
    size_t n, n_significant;
    const struct terminal *t;
    struct out *out;
};

// --- sample types ---

static bool profile_has_type(const struct model_profile *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_types; i++)
        if (str_eq(model_str(p, p->types[i].type), str_from(name)))
            return true;
    return false;
}

// Selects the type to rank, and its count type; NULL: none.
static int choose_leak_types(const struct call *call, const struct model_profile *p,
                             const char **bytes, const char **objects, struct err *e)
{
    char list[200] = "";
    size_t n = 0;
    *objects = NULL;
    *bytes = call->config.sample_index;
    if (!**bytes && profile_has_type(p, "inuse_space"))
        *bytes = "inuse_space";
    if (**bytes) {
        const char *beside =
            str_starts(str_from(*bytes), STR("alloc_")) ? "alloc_objects" : "inuse_objects";
        if (profile_has_type(p, beside) && strcmp(beside, *bytes) != 0)
            *objects = beside;
        return 0;
    }
    for (uint32_t i = 0; i < p->n_types && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%.*s", i ? ", " : "",
                              (int)model_str(p, p->types[i].type).n,
                              model_str(p, p->types[i].type).p);
    return err_set(e,
                   "no sample type inuse_space; the profiles have %s; select one with --type, or "
                   "compare CPU time with `kiln diff`",
                   list);
}

// --- rows ---

static const struct stats_function *
find_function_row(const struct diff *d, const struct hash_table *index, struct str name)
{
    uint64_t hash = hash_bytes(name.p, name.n, 0);
    for (struct hash_probe at = hash_find(index, hash); hash_hit(index, &at); hash_next(index, &at))
        if (str_eq(d->functions.rows[at.item].name, name))
            return &d->functions.rows[at.item];
    return NULL;
}

static int compare_growth(const void *a, const void *b)
{
    const struct leak *x = a, *y = b;
    if (x->bytes.change != y->bytes.change)
        return x->bytes.change > y->bytes.change ? -1 : 1;
    return str_cmp(x->name, y->name);
}

static void rank_leaks(struct leaks *l, struct arena *arena)
{
    bool cum = strcmp(l->call->config.sort, "cum") == 0;
    struct hash_table index;
    hash_init(&index, arena, l->objects.functions.n + 1);
    for (size_t i = 0; i < l->objects.functions.n; i++) {
        struct str name = l->objects.functions.rows[i].name;
        hash_add(&index, arena, hash_bytes(name.p, name.n, 0), (uint32_t)i);
    }
    l->rows = arena_array(arena, l->bytes.functions.n + 1, sizeof *l->rows);
    for (size_t i = 0; i < l->bytes.functions.n; i++) {
        const struct stats_function *row = &l->bytes.functions.rows[i];
        struct leak leak = {.name = row->name,
                            .bytes = diff_change(&l->bytes, cum ? &row->total : &row->self)};
        const struct stats_function *objects = find_function_row(&l->objects, &index, row->name);
        if (objects)
            leak.objects = diff_change(&l->objects, cum ? &objects->total : &objects->self);
        if (leak.bytes.change <= 0 || (l->call->significant && !leak.bytes.mark))
            continue;
        l->n_significant += leak.bytes.mark != STATS_NOISE;
        l->rows[l->n++] = leak;
    }
    qsort(l->rows, l->n, sizeof *l->rows, compare_growth);
}

// --- text ---

static struct str leak_label(const struct diff *d, double value, char *text, size_t n)
{
    return (struct str){text,
                        units_label(text, n, units_truncate(round(value)), d->unit, STR("auto"))};
}

static void put_leak_value(const struct leaks *l, const struct diff *d, const char *sign,
                           double value, enum style style)
{
    char text[128];
    size_t n = strlen(sign);
    memcpy(text, sign, n);
    n += leak_label(d, value, text + n, sizeof text - n).n;
    terminal_put_right(l->t, l->out, (struct str){text, n}, style, 11);
}

static void put_leak_change(const struct leaks *l, const struct diff *d,
                            const struct diff_change *c)
{
    enum style style = c->mark ? STYLE_MORE : STYLE_DIM;
    put_leak_value(l, d, "", c->before, STYLE_NONE);
    put_leak_value(l, d, "", c->after, STYLE_NONE);
    put_leak_value(l, d, c->change > 0 ? "+" : "", c->change, style);
}

static void put_leaks_total(const struct leaks *l, const struct diff *d)
{
    struct diff_change c = diff_total(d);
    char before[64], after[64], change[64], noise[64];
    leak_label(d, c.before, before, sizeof before);
    leak_label(d, c.after, after, sizeof after);
    leak_label(d, c.change, change, sizeof change);
    leak_label(d, c.half_width, noise, sizeof noise);
    terminal_put(l->t, l->out, d->type, STYLE_NONE, 0);
    out_printf(l->out, ": %s before, %s after; change %s%s ± %s, %s\n", before, after,
               c.change > 0 ? "+" : "", change, noise, c.mark ? "beyond noise" : "within noise");
}

static void put_leaks_head(const struct leaks *l)
{
    char heads[160];
    int n =
        snprintf(heads, sizeof heads, "%11s%11s%11s%11s  ", "before", "after", "growth", "± 95 %");
    if (l->has_objects)
        n += snprintf(heads + n, sizeof heads - (size_t)n, "%11s%11s%11s ", "objects", "after",
                      "growth");
    terminal_put(l->t, l->out, (struct str){heads, (size_t)n}, STYLE_BOLD, 0);
    out_char(l->out, '\n');
}

static void put_leaks_text(const struct leaks *l)
{
    size_t columns = l->t->columns, used = 46 + (l->has_objects ? 34 : 0), limit = l->n, i = 0;
    int asked = l->call->config.node_count;
    put_leaks_total(l, &l->bytes);
    if (l->has_objects)
        put_leaks_total(l, &l->objects);
    out_printf(l->out, "%zu grew, %zu beyond noise (*)\n", l->n, l->n_significant);
    put_leaks_head(l);
    if (asked > 0)
        limit = (size_t)asked;
    else if (asked < 0 && l->t->rows)
        limit = l->t->rows > 12 ? l->t->rows - 7 : 5;
    for (; i < l->n && i < limit; i++) {
        const struct leak *row = &l->rows[i];
        put_leak_change(l, &l->bytes, &row->bytes);
        put_leak_value(l, &l->bytes, "±", row->bytes.half_width, STYLE_DIM);
        out_text(l->out, row->bytes.mark ? " *" : "  ");
        if (l->has_objects) {
            put_leak_change(l, &l->objects, &row->objects);
            out_char(l->out, ' ');
        }
        terminal_put(l->t, l->out, row->name, STYLE_NONE,
                     columns == 0          ? 0
                     : columns > used + 12 ? columns - used
                                           : 12);
        out_char(l->out, '\n');
    }
    if (i < l->n)
        out_printf(l->out, "%zu more; --top 0 shows all\n", l->n - i);
}

// --- for programs ---

static void put_leak_json_change(struct out *out, const char *name, const struct diff_change *c)
{
    out_printf(out,
               ", \"%s\": {\"before\": %.17g, \"after\": %.17g, \"growth\": %.17g, "
               "\"interval\": [%.17g, %.17g], \"significant\": %s}",
               name, c->before, c->after, c->change, c->change - c->half_width,
               c->change + c->half_width, c->mark ? "true" : "false");
}

static void put_leaks_json(const struct leaks *l)
{
    out_text(l->out, "{\"type\": ");
    json_write_string(l->out, l->bytes.type);
    out_text(l->out, ", \"unit\": ");
    json_write_string(l->out, l->bytes.unit);
    out_printf(l->out, ", \"total\": {\"before\": %.17g, \"after\": %.17g},\n\"rows\": [",
               diff_total(&l->bytes).before, diff_total(&l->bytes).after);
    for (size_t i = 0; i < l->n; i++) {
        out_text(l->out, i ? ",\n{\"name\": " : "\n{\"name\": ");
        json_write_string(l->out, l->rows[i].name);
        put_leak_json_change(l->out, "bytes", &l->rows[i].bytes);
        if (l->has_objects)
            put_leak_json_change(l->out, "objects", &l->rows[i].objects);
        out_char(l->out, '}');
    }
    out_text(l->out, "\n]}\n");
}

static void put_leaks_csv(const struct leaks *l)
{
    out_text(l->out, "name,bytes_before,bytes_after,bytes_growth,bytes_low,bytes_high,significant,"
                     "objects_before,objects_after,objects_growth\n");
    for (size_t i = 0; i < l->n; i++) {
        const struct diff_change *b = &l->rows[i].bytes, *o = &l->rows[i].objects;
        out_char(l->out, '"');
        for (size_t k = 0; k < l->rows[i].name.n; k++) {
            if (l->rows[i].name.p[k] == '"')
                out_char(l->out, '"');
            out_char(l->out, l->rows[i].name.p[k]);
        }
        out_printf(l->out, "\",%.17g,%.17g,%.17g,%.17g,%.17g,%d,%.17g,%.17g,%.17g\n", b->before,
                   b->after, b->change, b->change - b->half_width, b->change + b->half_width,
                   b->mark != STATS_NOISE, o->before, o->after, o->change);
    }
}

static int write_leaks(struct leaks *l, struct err *e)
{
    const char *name = l->call->config.output;
    struct out out;
    if (output_begin(&out, name, e))
        return -1;
    l->out = &out;
    if (strcmp(l->call->format, "json") == 0)
        put_leaks_json(l);
    else if (strcmp(l->call->format, "csv") == 0)
        put_leaks_csv(l);
    else
        put_leaks_text(l);
    return output_end(&out, name, e);
}

// --- flame graph ---

// Draws after minus before, by function, because addresses differ between runs.
static int draw_growth(struct call *call, struct model_profile *const sides[2], const char *type,
                       struct err *e)
{
    const struct model_detail detail = {.inlines = true, .functions = true};
    struct model_profile *both[2];
    double *minus = arena_array(call->arena, sides[0]->n_types + 1, sizeof *minus);
    for (uint32_t i = 0; i < sides[0]->n_types; i++)
        minus[i] = -1;
    for (int i = 0; i < 2; i++) {
        const struct model_profile *p =
            view_filter(sides[1 - i], &call->config, call->arena, call_note, e);
        both[i] = p ? model_aggregate(p, detail, call->arena) : NULL;
        if (!both[i])
            return -1;
    }
    both[1] = model_scale(both[1], minus, call->arena);
    struct model_profile *growth = model_merge(both, 2, call->arena, e);
    int shown = growth ? model_type_index(growth, str_from(type), e) : -1;
    if (shown < 0)
        return -1;
    if (!*call->title)
        call->title = "Growth of memory in use";
    call->base = call->arguments[0];
    call->arguments++;
    call->n_arguments = 1;
    return flame_draw(call, growth, (struct report_flame_options){.type = (uint32_t)shown}, e);
}

static bool is_graph_file(const char *output)
{
    struct str name = str_from(output);
    return str_ends(name, STR(".svg")) || str_ends(name, STR(".html")) ||
           str_ends(name, STR(".htm"));
}

static int count_leaks(struct leaks *l, struct diff *d, struct model_profile *const sides[2],
                       const char *type, struct err *e)
{
    const struct model_profile *both[2] = {sides[0], sides[1]};
    struct config config = l->call->config;
    config.sample_index = type;
    d->absolute = true;
    return diff_count(d, &(struct diff_sides){.profiles = both, .n = {1, 1}, .cap = 2}, &config,
                      l->call->arena, call_note, e);
}

int command_leaks(struct call *call, struct err *e)
{
    struct model_profile *sides[2];
    const char *bytes, *objects;
    if (call_load_both(call, sides, e) || choose_leak_types(call, sides[1], &bytes, &objects, e))
        return -1;
    if (is_graph_file(call->config.output))
        return draw_growth(call, sides, bytes, e);
    struct terminal terminal =
        *call->config.output ? (struct terminal){0} : terminal_stdout(call->colour);
    struct leaks l = {.call = call, .t = &terminal, .has_objects = objects != NULL};
    if (count_leaks(&l, &l.bytes, sides, bytes, e) ||
        (objects && count_leaks(&l, &l.objects, sides, objects, e)))
        return -1;
    rank_leaks(&l, call->arena);
    return write_leaks(&l, e);
}
