#include "cli/query_function.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/remote_profile.h"
#include "cli/terminal.h"
#include "model/units.h"
#include "query/query.h"
#include "server/query_messages.h"

enum { SPARK_COLUMNS = 60 };

static const char *function_path(const struct query_function *q)
{
    const struct {
        const char *name, *value;
    } parameters[] = {
        {"query", arena_printf(q->arena, "%s%s", q->type, q->selector)},
        {"function", q->name},
        {"from", q->from},
        {"until", q->until},
        {"step", q->step},
        {"groupBy", q->by},
    };
    struct out path;
    out_init_arena(&path, q->arena);
    out_text(&path, "/api/v1/functions/series");
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        if (!parameters[i].value)
            continue;
        out_printf(&path, "%c%s=", i ? '&' : '?', parameters[i].name);
        remote_escape(&path, parameters[i].value);
    }
    out_char(&path, '\0');
    return path.p;
}

static const double *point_numbers(const struct message_list *list)
{
    return list->items;
}

// --- for programs ---

static void write_series_labels(struct out *out, const struct function_series *s)
{
    const struct store_label *labels = s->labels.items;
    for (size_t i = 0; i < s->labels.n; i++) {
        out_char(out, ' ');
        out_str(out, labels[i].name);
        out_char(out, '=');
        out_str(out, labels[i].value);
    }
}

static void write_points(const struct query_function *q, const struct function_series *s,
                         struct out *out)
{
    for (size_t i = 0; i < s->times.n; i++) {
        const char *when = remote_time(point_numbers(&s->times)[i], q->arena);
        out_printf(out, "%s %.17g %.17g %.17g", when, point_numbers(&s->self)[i],
                   point_numbers(&s->total)[i], point_numbers(&s->all)[i]);
        write_series_labels(out, s);
        out_char(out, '\n');
    }
}

// --- for a person ---

static double sum_points(const struct message_list *list)
{
    double all = 0;
    for (size_t i = 0; i < list->n; i++)
        all += point_numbers(list)[i];
    return all;
}

// Steps from the first to the last point.
static double count_steps(const struct function_series *s, double step)
{
    const double *times = point_numbers(&s->times);
    return s->times.n ? (times[s->times.n - 1] - times[0]) / (step * 1000) + 1 : 1;
}

// What value in so many steps is per second: cores of CPU time, `310ms/s` of other times, bytes per
// second. Of a gauge the mean.
static struct str function_amount(const struct query_function *q, struct str unit, double value,
                                  double n, double step)
{
    char text[64];
    bool gauge = store_type_is_gauge(str_from(q->type));
    double mean = value / (gauge ? n : n * step);
    if (query_type_is_cpu(str_from(q->type)))
        return str_from(arena_printf(q->arena, "%.3g cores", mean / 1e9));
    size_t length = units_label(text, sizeof text, units_truncate(mean), unit, STR("auto"));
    return str_from(arena_printf(q->arena, "%.*s%s", (int)length, text, gauge ? "" : "/s"));
}

// The highest of each column's points; a column without any is blank.
static struct str put_sparkline(const struct query_function *q, const struct function_series *s,
                                const struct function_answer *a, double n_steps, double highest)
{
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    double columns[SPARK_COLUMNS];
    size_t n = n_steps < SPARK_COLUMNS ? (size_t)n_steps : SPARK_COLUMNS;
    for (size_t i = 0; i < SPARK_COLUMNS; i++)
        columns[i] = -1;
    for (size_t i = 0; i < s->times.n; i++) {
        double at = (point_numbers(&s->times)[i] - a->start) / (a->step * 1000) / n_steps;
        size_t column = at > 0 ? (size_t)(at * (double)n + 1e-9) : 0;
        double value = point_numbers(&s->total)[i];
        if (column < n && value > columns[column])
            columns[column] = value;
    }
    struct out out;
    out_init_arena(&out, q->arena);
    for (size_t i = 0; i < n; i++) {
        double share = highest > 0 ? columns[i] / highest : 0;
        out_text(&out, columns[i] < 0 ? " " : bars[share >= 1 ? 7 : (int)(share * 8)]);
    }
    return out_result(&out);
}

static void write_pretty(const struct query_function *q, const struct terminal *t,
                         const struct function_answer *a, struct out *out)
{
    const struct function_series *series = a->series.items;
    struct str unit = STR("");
    size_t colon = str_find(a->type, STR(":"), 0), second = str_find(a->type, STR(":"), colon + 1);
    if (second != SIZE_MAX)
        unit = str_from_to(a->type, second + 1, str_find(a->type, STR(":"), second + 1));
    double highest = 0, n_steps = 1;
    for (size_t i = 0; i < a->series.n; i++)
        for (size_t k = 0; k < series[i].times.n; k++) {
            double at = (point_numbers(&series[i].times)[k] - a->start) / (a->step * 1000) + 1;
            double value = point_numbers(&series[i].total)[k];
            n_steps = at > n_steps ? at : n_steps;
            highest = value > highest ? value : highest;
        }
    static const char *const heads[] = {"self", "total", "share"};
    for (int i = 0; i < 3; i++)
        terminal_put_right(t, out, str_from(heads[i]), STYLE_BOLD, i < 2 ? 14 : 9);
    out_text(out, "  ");
    const char *over = arena_printf(q->arena, "total, steps of %g s", a->step);
    terminal_put(t, out, str_from(over), STYLE_DIM, 0);
    out_char(out, '\n');
    for (size_t i = 0; i < a->series.n; i++) {
        const struct function_series *s = &series[i];
        double all = sum_points(&s->all), n = count_steps(s, a->step);
        struct out labels;
        out_init_arena(&labels, q->arena);
        write_series_labels(&labels, s);
        terminal_put_right(t, out, function_amount(q, unit, sum_points(&s->self), n, a->step),
                           STYLE_NONE, 14);
        terminal_put_right(t, out, function_amount(q, unit, sum_points(&s->total), n, a->step),
                           STYLE_NONE, 14);
        const char *share =
            arena_printf(q->arena, "%.3g%%", all > 0 ? sum_points(&s->total) / all * 100 : 0);
        terminal_put_right(t, out, str_from(share), STYLE_NONE, 9);
        out_text(out, "  ");
        terminal_put(t, out, put_sparkline(q, s, a, n_steps, highest), STYLE_NONE, 0);
        terminal_put(t, out, out_result(&labels), STYLE_NONE, 0);
        out_char(out, '\n');
    }
}

int query_function(const struct query_function *q, struct err *e)
{
    struct str text;
    struct out out;
    if (remote_call(&q->remote, function_path(q), NULL, (struct str){NULL, 0}, q->arena, &text, e))
        return -1;
    if (q->json) {
        fwrite(text.p, 1, text.n, stdout);
        if (!text.n || text.p[text.n - 1] != '\n')
            putchar('\n');
        return 0;
    }
    const struct function_answer *a =
        message_read_json(&function_answer_message, q->arena, (const uint8_t *)text.p, text.n, e);
    if (!a)
        return -1;
    if (!(a->step > 0))
        return err_set(e, "invalid response of the server: no step");
    const struct function_series *series = a->series.items;
    double found = 0;
    for (size_t i = 0; i < a->series.n; i++) {
        size_t n = series[i].times.n;
        if (series[i].self.n != n || series[i].total.n != n || series[i].all.n != n)
            return err_set(e, "invalid response of the server: columns of different length");
        found += sum_points(&series[i].total);
    }
    if (!a->series.n || !found)
        fprintf(stderr, "kiln: no samples of \"%s\" with %s from %s until %s\n", q->name,
                q->selector, q->from, q->until);
    struct terminal t = terminal_stdout("auto");
    out_init_fd(&out, STDOUT_FILENO);
    if (t.pretty && a->series.n)
        write_pretty(q, &t, a, &out);
    for (size_t i = 0; i < a->series.n && !t.pretty; i++)
        write_points(q, &series[i], &out);
    int result = out_finish(&out, e);
    out_fini(&out);
    return result;
}
