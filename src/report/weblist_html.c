// Renders weblist as one page: functions with their source lines; a line expands to show its
// machine code. Each row has the text of pprof's page; the markup is our own.
#include <stdio.h>

#include "model/units.h"
#include "report/flame_internal.h"
#include "report/weblist.h"
#include "weblist_assets.h"

enum {
    MERGE = 20,   // parts of a function with fewer lines between them are merged
    MARGIN = 5,   // lines before and after
    COLUMNS = 80, // of machine code
};

// A function's lines [begin, end), and their entries in the file.
struct part {
    struct str name;
    int64_t begin, end, flat, cum;
};

static void put_weblist_text(struct out *out, struct str s)
{
    while (s.n) {
        const char *tab = memchr(s.p, '\t', s.n);
        size_t n = tab ? (size_t)(tab - s.p) : s.n;
        flame_write_xml(out, str_from_to(s, 0, n));
        if (tab)
            out_char(out, '\t');
        s = str_from_to(s, n + (tab != NULL), s.n);
    }
}

// The column of the first character of a line.
static size_t line_indentation(struct str line)
{
    size_t column = 0;
    for (size_t i = 0; i < line.n && (line.p[i] == ' ' || line.p[i] == '\t'); i++)
        column = line.p[i] == ' ' ? column + 1 : (column + 8) & ~(size_t)7;
    return column;
}

// Writes text after indent spaces, with tabs expanded, padded to COLUMNS.
static void put_padded(struct out *out, size_t indent, struct str text)
{
    size_t column = indent;
    out_spaces(out, indent);
    while (text.n) {
        const char *tab = memchr(text.p, '\t', text.n);
        struct str piece = str_from_to(text, 0, tab ? (size_t)(tab - text.p) : text.n);
        flame_write_xml(out, piece);
        column += str_columns(piece);
        text = str_from_to(text, piece.n + (tab != NULL), text.n);
        if (!tab)
            break;
        size_t stop = (column + 8) & ~(size_t)7;
        out_spaces(out, stop - column);
        column = stop;
    }
    if (column < COLUMNS)
        out_spaces(out, COLUMNS - column);
}

static void put_weblist_values(const struct weblist *w, struct out *out, int64_t flat, int64_t cum)
{
    report_put_value_or_dot(w->r, out, flat, 10);
    out_char(out, ' ');
    report_put_value_or_dot(w->r, out, cum, 10);
    out_char(out, ' ');
}

static void put_weblist_place(const struct weblist *w, struct out *out, uint32_t file, int64_t line)
{
    out_text(out, " <b>");
    put_weblist_text(out, path_base(model_str(w->r->p, file)));
    out_printf(out, ":%lld</b>", (long long)line);
}

static bool same_call(const struct weblist_frame *a, const struct weblist_frame *b)
{
    return a->file == b->file && a->line == b->line;
}

// Writes the inline chain at e, without the part that is the same as before.
static void put_calls(const struct weblist *w, struct out *out, const struct weblist_entry *e,
                      const struct weblist_entry *before, size_t indent)
{
    uint32_t known = before ? before->depth : 0;
    for (uint32_t j = 0; j < e->depth; j++) {
        const struct weblist_frame *call = &e->frames[e->depth - 1 - j];
        if (j < known && same_call(&before->frames[before->depth - 1 - j], call))
            continue;
        known = 0;
        struct str line = STR("");
        source_files_line(w->sources, model_str(w->r->p, call->file), call->line, &line);
        out_text(out, "<div class=call>");
        out_spaces(out, 42);
        put_padded(out, indent + 4 + 4 * j, str_trim(line));
        put_weblist_place(w, out, call->file, call->line);
        out_text(out, "</div>\n");
    }
}

static void put_line_instructions(const struct weblist *w, struct out *out,
                                  const struct weblist_entry *entries, size_t n, size_t indent)
{
    const struct weblist_inst *last = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct weblist_entry *e = &entries[i];
        const struct weblist_inst *inst = &w->insts[e->inst];
        if (last && inst->addr != last->addr + last->length) {
            out_text(out, "<div>");
            out_spaces(out, 37);
            out_text(out, "⋮</div>\n");
        }
        put_calls(w, out, e, i ? &entries[i - 1] : NULL, indent);
        last = inst;
        if (inst->text.n == 0)
            continue;
        out_text(out, "<div class=code>");
        out_spaces(out, 10);
        put_weblist_values(w, out, inst->flat, inst->cum);
        out_printf(out, "%8llx: ", (unsigned long long)inst->object_addr);
        put_padded(out, indent + 4 + 4 * (size_t)e->depth, inst->text);
        if (inst->file)
            put_weblist_place(w, out, inst->file, inst->line);
        out_text(out, "</div>\n");
    }
}

static void put_line(const struct weblist *w, struct out *out, int64_t number, struct str line,
                     const struct weblist_entry *entries, size_t n)
{
    int64_t flat = 0, cum = 0;
    bool opens = false;
    for (size_t i = 0; i < n; i++) {
        const struct weblist_inst *inst = &w->insts[entries[i].inst];
        flat = units_add(flat, inst->flat);
        cum = units_add(cum, inst->cum);
        opens |= entries[i].depth > 0 || inst->text.n > 0;
    }
    double share = w->r->total ? (double)cum / (double)w->r->total : 0;
    const char *class = n == 0 ? " class=none" : "";
    out_text(out, opens ? "<details><summary" : "<div");
    if (share >= 0.005 && w->r->o.fragment)
        out_printf(out, " class=warm data-share=\"%.4f\"", share < 1 ? share : 1);
    else if (share >= 0.005)
        out_printf(out,
                   " class=warm style=\"background-size:%.1f%% 100%%;"
                   "background-repeat:no-repeat\"",
                   share < 1 ? 100 * share : 100);
    else
        out_text(out, class);
    out_printf(out, "><b> %6lld</b>   ", (long long)number);
    put_weblist_values(w, out, flat, cum);
    out_spaces(out, 10);
    put_weblist_text(out, line);
    if (!opens) {
        out_text(out, "</div>\n");
        return;
    }
    out_text(out, "</summary>\n");
    put_line_instructions(w, out, entries, n, line_indentation(line));
    out_text(out, "</details>\n");
}

static void put_weblist_part(const struct weblist *w, struct out *out,
                             const struct weblist_file *file, const struct part *part)
{
    struct str name = model_str(w->r->p, file->name), line;
    out_text(out, "<h2>");
    put_weblist_text(out, part->name);
    out_text(out, "</h2>\n<p class=file>");
    put_weblist_text(out, name);
    out_text(out, "</p>\n<section>\n<div>  Total:  ");
    report_put_sums(w->r, out, part->flat, part->cum);
    out_text(out, "</div>\n");
    size_t first = 0;
    while (first < file->n && file->entries[first].line < part->begin)
        first++;
    for (int64_t l = part->begin; l < part->end; l++) {
        size_t n = 0;
        while (first + n < file->n && file->entries[first + n].line == l)
            n++;
        bool has = source_files_line(w->sources, name, l, &line);
        if (!has)
            line = l == 0 ? STR("<instructions with unknown line numbers>") : STR("???");
        if (has || n)
            put_line(w, out, l, line, file->entries + first, n);
        first += n;
    }
    out_text(out, "</section>\n");
}

static struct str weblist_part_name(const struct weblist *w, uint32_t function)
{
    if (function < w->n_strings && w->pretty[function])
        function = w->pretty[function] - 1;
    return model_str(w->r->p, function);
}

// Finds the parts of a file to show: lines of one function that are close together.
static struct part *find_parts(const struct weblist *w, const struct weblist_file *file, size_t *n)
{
    struct part *parts = NULL;
    size_t cap = 0;
    *n = 0;
    for (size_t i = 0, end; i < file->n; i = end) {
        int64_t line = file->entries[i].line;
        struct part part = {weblist_part_name(w, file->entries[i].function), line, line + 1, 0, 0};
        for (end = i; end < file->n && file->entries[end].line == line; end++) {
            const struct weblist_inst *inst = &w->insts[file->entries[end].inst];
            part.flat = units_add(part.flat, inst->flat);
            part.cum = units_add(part.cum, inst->cum);
        }
        struct part *last = *n ? &parts[*n - 1] : NULL;
        if (last && line - last->end < MERGE && str_eq(last->name, part.name)) {
            last->end = line + 1;
            last->flat = units_add(last->flat, part.flat);
            last->cum = units_add(last->cum, part.cum);
            continue;
        }
        parts = arena_push(w->r->arena, parts, *n, &cap, sizeof *parts);
        parts[(*n)++] = part;
    }
    return parts;
}

// Adds lines around each part; the gap between two parts is split.
static void widen_parts(struct part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct part *part = &parts[i];
        if (i > 0) {
            int64_t gap = (part->begin - parts[i - 1].end) / 2;
            gap = gap > MARGIN ? MARGIN : gap;
            parts[i - 1].end += gap;
            part->begin -= gap;
        } else if (part->begin > MARGIN) {
            part->begin -= MARGIN;
        } else if (part->begin > 1) {
            part->begin = 1; // 0 is used for unknown lines
        }
    }
    if (n)
        parts[n - 1].end += MARGIN;
}

static void put_weblist_head(const struct weblist *w, struct out *out)
{
    const struct report *r = w->r;
    // The policy guarantees that the page makes no requests.
    out_text(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                  "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
                  "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    put_weblist_text(out, r->o.title.n ? r->o.title : STR("unknown"));
    out_char(out, ' ');
    put_weblist_text(out, r->o.type_name);
    out_text(out, "</title>\n<style>\n:root {");
    out_text(out, weblist_theme_css);
    out_text(out, "}\n@media (prefers-color-scheme: dark) { :root {");
    out_text(out, weblist_theme_dark_css);
    out_text(out, "} }\n");
    out_text(out, weblist_page_css);
    out_text(out, "</style>\n</head>\n<body>\n");
    struct str rest = report_profile_labels(r), line;
    while (str_next_line(&rest, &line)) {
        out_text(out, "<p>");
        put_weblist_text(out, line);
        out_text(out, "</p>\n");
    }
    out_text(out, "<p>Total: ");
    report_put_value(r, out, r->total, 0);
    out_text(out, "</p>\n<button id=all>Open or close all lines</button>\n");
}

void weblist_html(struct weblist *w, struct out *out)
{
    if (!w->r->o.fragment)
        put_weblist_head(w, out);
    for (size_t i = 0; i < w->n_files; i++) {
        size_t n;
        struct part *parts = find_parts(w, &w->files[i], &n);
        widen_parts(parts, n);
        for (size_t k = 0; k < n; k++)
            if (parts[k].cum != 0)
                put_weblist_part(w, out, &w->files[i], &parts[k]);
    }
    if (w->r->o.fragment)
        return;
    out_text(out, "<script>\n");
    out_text(out, weblist_page_js);
    out_text(out, "</script>\n</body>\n</html>\n");
}
