// list: the source of functions, with the values of each line.
#include "report/formats.h"

#include <stdlib.h>

#include "model/units.h"
#include "report/source_file.h"

// Lines shown before the first and after the last line with samples.
enum { MARGIN = 5 };

struct listing {
    struct report *r;
    struct graph *g;
    struct source_files *sources;
    struct out *out;
};

// Sorts by function name, file name, start line, line. Does not allocate.
static int compare_listed_nodes(const void *a, const void *b, void *graph)
{
    const struct graph *g = graph;
    const struct node *x = &g->nodes[*(const uint32_t *)a], *y = &g->nodes[*(const uint32_t *)b];
    int c = str_cmp(model_str(g->p, x->info.name), model_str(g->p, y->info.name));
    if (!c)
        c = str_cmp(model_str(g->p, x->info.file), model_str(g->p, y->info.file));
    if (!c)
        c = (x->info.start_line > y->info.start_line) - (x->info.start_line < y->info.start_line);
    if (!c)
        c = (x->info.line > y->info.line) - (x->info.line < y->info.line);
    return c ? c : (x > y) - (x < y);
}

void report_put_value_or_dot(const struct report *r, struct out *out, int64_t value, size_t width)
{
    if (value)
        report_put_value(r, out, value, width);
    else
        out_right(out, STR("."), width);
}

void report_put_sums(const struct report *r, struct out *out, int64_t flat, int64_t cum)
{
    report_put_value(r, out, flat, 10);
    out_char(out, ' ');
    report_put_value(r, out, cum, 10);
    out_text(out, " (flat, cum) ");
    report_put_percentage(out, cum, r->total);
}

static int64_t shift_line(int64_t line, int by)
{
    return (int64_t)((uint64_t)line + (uint64_t)(int64_t)by);
}

// The range of lines to show, from the beginning of the function if it is known.
static void choose_lines(const struct graph *g, const uint32_t *nodes, size_t n, int64_t *start,
                         int64_t *end)
{
    for (size_t i = 0; i < n; i++) {
        const struct node_info *info = &g->nodes[nodes[i]].info;
        int64_t from = info->start_line ? info->start_line : shift_line(info->line, -MARGIN);
        int64_t to = shift_line(info->line, MARGIN);
        if (i == 0) {
            *start = from;
            *end = to;
        } else if (from < *start) {
            *start = from;
        } else if (to > *end) {
            *end = to;
        }
    }
    if (*start < 1)
        *start = 1;
}

static void put_lines(struct listing *l, const uint32_t *nodes, size_t n, struct str file,
                      int64_t start, int64_t end)
{
    struct str text;
    for (int64_t line = start; line <= end; line++) {
        if (!source_files_line(l->sources, file, line, &text))
            return;
        int64_t flat = 0, cum = 0;
        for (size_t i = 0; i < n; i++) {
            const struct node *node = &l->g->nodes[nodes[i]];
            if (node->info.line == line) {
                flat = units_add(flat, node->flat);
                cum = units_add(cum, node->cum);
            }
        }
        report_put_value_or_dot(l->r, l->out, flat, 10);
        out_char(l->out, ' ');
        report_put_value_or_dot(l->r, l->out, cum, 10);
        out_printf(l->out, " %6lld:", (long long)line);
        out_str(l->out, text);
        out_char(l->out, '\n');
    }
}

// Writes one file of one function.
static void put_listed_file(struct listing *l, const uint32_t *nodes, size_t n)
{
    const struct node_info *info = &l->g->nodes[nodes[0]].info;
    struct str name = model_str(l->r->p, info->name), file = model_str(l->r->p, info->file);
    int64_t flat = 0, cum = 0;
    for (size_t i = 0; i < n; i++) {
        flat = units_add(flat, l->g->nodes[nodes[i]].flat);
        cum = units_add(cum, l->g->nodes[nodes[i]].cum);
    }
    out_text(l->out, "ROUTINE ======================== ");
    out_str(l->out, name);
    out_text(l->out, " in ");
    out_str(l->out, file);
    out_char(l->out, '\n');
    report_put_sums(l->r, l->out, flat, cum);
    out_text(l->out, " of Total\n");
    int64_t start = 0, end = 0;
    struct str ignored;
    choose_lines(l->g, nodes, n, &start, &end);
    // A missing file is an error only if lines of it are to be shown.
    if (start <= end)
        source_files_line(l->sources, file, start, &ignored);
    const char *error = source_files_error(l->sources, file);
    if (error)
        out_printf(l->out, " Error: %s\n", error);
    else
        put_lines(l, nodes, n, file, start, end);
}

static void put_listed_function(struct listing *l, const uint32_t *nodes, size_t n)
{
    size_t i = 0;
    while (i < n && l->g->nodes[nodes[i]].info.file == 0)
        i++;
    if (i == n) {
        out_text(l->out, "No source information for ");
        out_str(l->out, model_str(l->r->p, l->g->nodes[nodes[0]].info.name));
        out_char(l->out, '\n');
    }
    while (i < n) {
        size_t end = i;
        while (end < n && l->g->nodes[nodes[end]].info.file == l->g->nodes[nodes[i]].info.file)
            end++;
        put_listed_file(l, nodes + i, end - i);
        i = end;
    }
}

void report_list(struct report *r, struct out *out)
{
    struct listing l = {.r = r, .g = graph_new_values(r), .out = out};
    l.sources = source_files_new(r->arena, r->o.source_path, r->o.trim_path);
    uint32_t *nodes = arena_array(r->arena, l.g->n_selected + 1, sizeof *nodes);
    size_t n = 0;
    for (size_t i = 0; i < l.g->n_selected; i++) {
        uint32_t node = l.g->selected[i];
        if (model_regex_match_id(r->o.symbol, r->p->strings, l.g->nodes[node].info.name))
            nodes[n++] = node;
    }
    if (n == 0) {
        struct str pattern = model_regex_pattern(r->o.symbol);
        arena_fail(r->arena, "no matches found for regexp: %.*s", (int)pattern.n, pattern.p);
    }
    qsort_r(nodes, n, sizeof *nodes, compare_listed_nodes, l.g);
    out_text(out, "Total: ");
    report_put_value(r, out, r->total, 0);
    out_char(out, '\n');
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i;
             end < n && l.g->nodes[nodes[end]].info.name == l.g->nodes[nodes[i]].info.name;)
            end++;
        put_listed_function(&l, nodes + i, end - i);
    }
}
