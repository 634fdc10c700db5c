// kiln diff: what changed between two profiles, and which changes are noise.
#include "cli/diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/present.h"
#include "codec/json.h"
#include "model/transform.h"
#include "model/units.h"

struct shown {
    const struct stats_function *row;
    struct diff_change flat, cum;
};

struct table {
    const struct diff *d;
    const struct call *call;
    bool by_cum;
    struct shown *rows; // sorted
    size_t n;           // shown
    size_t n_all, n_changed, n_marked, n_callers;
    struct str unit; // unit of printed values
    const struct terminal *t;
    struct out *out;
};

static const struct diff_change *diff_sort_key(const struct shown *s, bool by_cum)
{
    return by_cum ? &s->cum : &s->flat;
}

static int compare_shown(const void *a, const void *b, void *by_cum)
{
    const struct shown *x = a, *y = b;
    double left = fabs(diff_sort_key(x, *(bool *)by_cum)->change);
    double right = fabs(diff_sort_key(y, *(bool *)by_cum)->change);
    if (left != right)
        return left > right ? -1 : 1;
    return str_cmp(x->row->name, y->row->name);
}

// Builds all rows with their changes, sorted by size, and keeps only the requested ones.
static void sort_diff_rows(struct table *t, struct arena *arena)
{
    const struct stats_functions *f = &t->d->functions;
    t->rows = arena_array(arena, f->n + 1, sizeof *t->rows);
    t->n_all = f->n;
    for (size_t i = 0; i < f->n; i++) {
        const struct stats_function *row = &f->rows[i];
        struct shown s = {row, diff_change(t->d, &row->self), diff_change(t->d, &row->total)};
        bool is_marked = s.flat.mark == STATS_CHANGED || s.cum.mark == STATS_CHANGED;
        bool is_caller = !is_marked && s.cum.mark == STATS_CALLEE;
        t->n_changed += diff_sort_key(&s, t->by_cum)->change != 0 || is_marked || is_caller;
        t->n_marked += is_marked;
        t->n_callers += is_caller;
        if (!t->call->significant || is_marked)
            t->rows[t->n++] = s;
    }
    qsort_r(t->rows, t->n, sizeof *t->rows, compare_shown, &t->by_cum);
}

// --- text ---

// Selects one unit for all values, as pprof does: that of the smallest value, or a coarser one.
static void choose_unit(struct table *t)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct diff_change *c = diff_sort_key(&t->rows[i], t->by_cum);
        double values[2] = {fabs(c->before), fabs(c->after)};
        for (int k = 0; k < 2; k++) {
            if (values[k] >= 1)
                least = fmin(least, values[k]);
            most = fmax(most, values[k]);
        }
    }
    struct str unit, most_unit;
    least = isinf(least) ? 0 : least;
    units_scale(units_truncate(least), t->d->unit, STR("minimum"), &unit);
    units_scale(units_truncate(most), t->d->unit, STR("minimum"), &most_unit);
    if (!str_eq(unit, most_unit) && least * 100 < most)
        units_scale(units_truncate(least * 100), t->d->unit, STR("minimum"), &unit);
    t->unit = str_from(t->call->config.unit);
    if (str_eq(t->unit, STR("minimum")))
        t->unit = unit.n ? unit : t->d->unit;
}

// Two digits of the noise are enough.
static double round_to_two_digits(double value)
{
    if (value <= 0)
        return 0;
    double unit = pow(10, floor(log10(value)) - 1);
    return round(value / unit) * unit;
}

static struct str diff_label(const struct table *t, char *text, size_t size, double value)
{
    return (struct str){text, units_label(text, size, units_round(value), t->d->unit, t->unit)};
}

static void put_diff_value(const struct table *t, const char *sign, double value, enum style style,
                           size_t width)
{
    char text[256] = "";
    size_t n = strlen(sign);
    memcpy(text, sign, n);
    n += diff_label(t, text + n, sizeof text - n, value).n;
    terminal_put_right(t->t, t->out, (struct str){text, n}, style, width);
}

static void put_diff_change(const struct table *t, const struct diff_change *c)
{
    enum style style = c->mark == STATS_NOISE ? STYLE_DIM : c->change > 0 ? STYLE_MORE : STYLE_LESS;
    const char *mark = c->mark == STATS_CHANGED ? " *" : c->mark == STATS_CALLEE ? " ^" : "  ";
    put_diff_value(t, "", c->before, STYLE_NONE, 11);
    put_diff_value(t, "", c->after, STYLE_NONE, 11);
    put_diff_value(t, c->change > 0 ? "+" : "", c->change, style, 11);
    put_diff_value(t, "±", round_to_two_digits(c->half_width), STYLE_DIM, 10);
    terminal_put(t->t, t->out, str_from(mark), style, 0);
}

// Prints what the marks are based on, if it may be unexpected.
static void put_model(const struct table *t)
{
    const struct stats_fit *fit = &t->d->functions.fit;
    size_t n[2] = {fit->n_profiles[0], fit->n_profiles[1]};
    double scale = stats_scale(fit);
    if (t->d->is_parts)
        out_printf(t->out,
                   "Split into %zu and %zu parts by time%s; their differences count as noise.\n",
                   n[0], n[1], t->d->is_grouped ? ", and by pod" : "");
    else if (n[0] + n[1] > 2)
        out_printf(t->out, "Means of %zu and %zu profiles; their differences count as noise.\n",
                   n[0], n[1]);
    else if (fit->sampling_only)
        out_text(t->out,
                 "Noise includes sampling only; compare several profiles per side for more.\n");
    if (!t->d->is_weighed && !t->d->is_heap)
        out_text(t->out,
                 "The profiles have no sample weights: each count is treated as a sample.\n");
    if (fabs(log(scale)) > 0.05 && t->d->functions.total_changed)
        out_printf(t->out, "Most functions changed by a factor of %.3g; others are marked.\n",
                   scale);
}

static void put_diff_summary(const struct table *t)
{
    const struct diff *d = t->d;
    struct diff_change c = diff_total(d);
    char before[256], after[256], change[256], width[256];
    struct table automatic = *t;
    automatic.unit = STR("auto");
    diff_label(&automatic, before, sizeof before, c.before);
    diff_label(&automatic, after, sizeof after, c.after);
    diff_label(&automatic, change, sizeof change, c.change);
    diff_label(&automatic, width, sizeof width, round_to_two_digits(c.half_width));
    terminal_put(t->t, t->out, d->type, STYLE_NONE, 0);
    out_printf(t->out, ": %s before, %s after; change %s%s ± %s, %s\n", before, after,
               c.change > 0 ? "+" : "", change, width, c.mark ? "beyond noise" : "within noise");
    double a = d->duration[0], b = d->duration[1];
    if (d->normalized)
        out_text(t->out, "Shares are compared: before is scaled to the total of after.\n");
    else if (a > 0 && b > 0 && fabs(a - b) > 0.1 * fmax(a, b))
        out_printf(t->out,
                   "The profiles took %.3g s and %.3g s: --normalize compares shares instead.\n", a,
                   b);
    put_model(t);
    out_printf(t->out, "%zu of %zu changed, %zu beyond noise (*)", t->n_changed, t->n_all,
               t->n_marked);
    if (t->n_callers)
        out_printf(t->out, ", %zu more because of those (^)", t->n_callers);
    out_char(t->out, '\n');
}

// Prints a name, and the culprit if there is room.
static void put_diff_name(const struct table *t, const struct shown *s, size_t width)
{
    const struct str name = s->row->name;
    terminal_put(t->t, t->out, name, STYLE_NONE, width);
    if (s->cum.mark != STATS_CALLEE)
        return;
    struct str because = t->d->functions.rows[s->row->total.because].name;
    if (width == 0 || name.n + because.n + 13 <= width) {
        out_text(t->out, "  because of ");
        terminal_put(t->t, t->out, because, STYLE_NONE, 0);
    }
}

static void put_diff_table(const struct table *t)
{
    // Flat and cum if there is room.
    size_t columns = t->t->columns, measures = columns == 0 || columns >= 130 ? 2 : 1;
    for (size_t m = 0; m < measures; m++) {
        char heads[128];
        int n = snprintf(heads, sizeof heads, "%11s%11s%11s%11s  ",
                         t->by_cum == (m == 0) ? "cum before" : "flat before", "after", "change",
                         "± 95 %");
        terminal_put(t->t, t->out, (struct str){heads, (size_t)n}, STYLE_BOLD, 0);
    }
    out_char(t->out, '\n');
    size_t limit = t->n, used = 45 * measures + 1;
    if (t->call->config.node_count > 0)
        limit = (size_t)t->call->config.node_count;
    else if (t->call->config.node_count < 0 && t->t->rows)
        limit = t->t->rows > 11 ? t->t->rows - 6 : 5;
    size_t more = 0, hidden = 0, shown = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct shown *s = &t->rows[i];
        // The values that are not sorted by may have changed alone.
        if (diff_sort_key(s, t->by_cum)->change == 0) {
            bool marked = s->flat.mark == STATS_CHANGED || s->cum.mark == STATS_CHANGED;
            hidden += marked && measures == 1;
            if (!marked || measures == 1)
                continue;
        }
        if (shown == limit) {
            more++;
            continue;
        }
        shown++;
        put_diff_change(t, t->by_cum ? &s->cum : &s->flat);
        if (measures > 1)
            put_diff_change(t, t->by_cum ? &s->flat : &s->cum);
        out_char(t->out, ' ');
        put_diff_name(t, s, columns == 0 ? 0 : columns > used + 12 ? columns - used : 12);
        out_char(t->out, '\n');
    }
    char text[80];
    if (more) {
        snprintf(text, sizeof text, "%zu more; -n 0 shows all", more);
        terminal_put(t->t, t->out, str_from(text), STYLE_DIM, 0);
        out_char(t->out, '\n');
    }
    if (hidden) {
        snprintf(text, sizeof text, "%zu changed only because of their callees; --%s shows them",
                 hidden, t->by_cum ? "flat" : "cum");
        terminal_put(t->t, t->out, str_from(text), STYLE_DIM, 0);
        out_char(t->out, '\n');
    }
}

// --- for programs ---

static void put_diff_json_change(const struct table *t, const char *name,
                                 const struct diff_change *c, const struct stats_measure *m)
{
    out_printf(t->out,
               "\"%s\": {\"before\": %.17g, \"after\": %.17g, \"change\": %.17g, "
               "\"interval\": [%.17g, %.17g], \"p\": %.6g, \"q\": %.6g, \"significant\": %s",
               name, c->before, c->after, c->change, c->change - c->half_width,
               c->change + c->half_width, m->change.p, m->q,
               c->mark == STATS_CHANGED ? "true" : "false");
    if (c->mark == STATS_CALLEE) {
        out_text(t->out, ", \"because_of\": ");
        json_write_string(t->out, t->d->functions.rows[m->because].name);
    }
    out_char(t->out, '}');
}

static void put_diff_json(const struct table *t)
{
    struct out *out = t->out;
    const struct diff *d = t->d;
    out_text(out, "{\"type\": ");
    json_write_string(out, d->type);
    out_text(out, ", \"unit\": ");
    json_write_string(out, d->unit);
    struct diff_change total = diff_total(d);
    const struct stats_fit *fit = &d->functions.fit;
    out_printf(out,
               ", \"normalized\": %s, \"total\": {\"before\": %.17g, \"after\": %.17g, "
               "\"interval\": [%.17g, %.17g], \"p\": %.6g, \"significant\": %s},\n"
               "\"model\": {\"profiles\": [%zu, %zu], \"scale\": %.6g, \"dispersion\": %.6g, "
               "\"level\": %.6g, \"sampling_only\": %s, \"weights_known\": %s},\n",
               d->normalized ? "true" : "false", total.before, total.after,
               total.change - total.half_width, total.change + total.half_width,
               d->functions.total.p, total.mark ? "true" : "false", fit->n_profiles[0],
               fit->n_profiles[1], stats_scale(fit), fit->dispersion, STATS_LEVEL,
               fit->sampling_only ? "true" : "false", d->is_weighed ? "true" : "false");
    out_text(out, "\"rows\": [");
    for (size_t i = 0; i < t->n; i++) {
        out_text(out, i ? ",\n{\"name\": " : "\n{\"name\": ");
        json_write_string(out, t->rows[i].row->name);
        out_text(out, ", ");
        put_diff_json_change(t, "flat", &t->rows[i].flat, &t->rows[i].row->self);
        out_text(out, ", ");
        put_diff_json_change(t, "cum", &t->rows[i].cum, &t->rows[i].row->total);
        out_char(out, '}');
    }
    out_text(out, "\n]}\n");
}

static void put_csv_change(struct out *out, const struct diff_change *c)
{
    out_printf(out, ",%.17g,%.17g,%.17g,%.17g,%.17g,%d", c->before, c->after, c->change,
               c->change - c->half_width, c->change + c->half_width, c->mark == STATS_CHANGED);
}

static void put_diff_csv(const struct table *t)
{
    out_text(t->out, "name,flat_before,flat_after,flat_change,flat_low,flat_high,flat_significant,"
                     "cum_before,cum_after,cum_change,cum_low,cum_high,cum_significant\n");
    for (size_t i = 0; i < t->n; i++) {
        struct str name = t->rows[i].row->name;
        out_char(t->out, '"');
        for (size_t k = 0; k < name.n; k++) {
            if (name.p[k] == '"')
                out_char(t->out, '"');
            out_char(t->out, name.p[k]);
        }
        out_char(t->out, '"');
        put_csv_change(t->out, &t->rows[i].flat);
        put_csv_change(t->out, &t->rows[i].cum);
        out_char(t->out, '\n');
    }
}

static int write_diff_table(struct table *t, struct err *e)
{
    const char *name = t->call->config.output;
    struct out out;
    if (output_begin(&out, name, e))
        return -1;
    t->out = &out;
    if (strcmp(t->call->format, "json") == 0) {
        put_diff_json(t);
    } else if (strcmp(t->call->format, "csv") == 0) {
        put_diff_csv(t);
    } else {
        choose_unit(t);
        put_diff_summary(t);
        put_diff_table(t);
    }
    return output_end(&out, name, e);
}

int command_diff(struct call *call, struct err *e)
{
    struct diff_sides sides;
    call->source.keeps_encoded = true;
    if (call_load_sides(call, &sides, e))
        return -1;
    struct diff d = {.normalized = call->normalize};
    if (diff_count(&d, &sides, &call->config, call->arena, call_note, e))
        return -1;
    struct terminal terminal =
        *call->config.output ? (struct terminal){0} : terminal_stdout(call->colour);
    struct table t = {
        .d = &d, .call = call, .by_cum = strcmp(call->config.sort, "cum") == 0, .t = &terminal};
    sort_diff_rows(&t, call->arena);
    return write_diff_table(&t, e);
}
