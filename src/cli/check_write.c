#include <math.h>
#include <stdio.h>

#include "cli/check.h"
#include "codec/json.h"
#include "model/units.h"

static const char *const verdicts[] = {"passed", "undecided", "failed"};

// Units come from the profiles and may contain anything: every writer masks the result.
static const char *value_text(const struct check_item *i, double value, struct arena *arena)
{
    char text[256];
    units_label(text, sizeof text, units_round(value), i->unit, STR("auto"));
    return arena_printf(arena, "%s", text);
}

// Nothing can shrink by more than all of it: where the interval says so, it ends at -100 %.
static const char *relative_text(const struct diff_change *c, struct arena *arena)
{
    if (!(c->before > 0))
        return c->change > 0 ? "new" : "none";
    double change = 100 * c->change / c->before, width = 100 * c->half_width / c->before;
    if (change - width < -100)
        return arena_printf(arena, "%+.1f %%, -100 %% to %+.1f %%", change, change + width);
    return arena_printf(arena, "%+.1f %% ± %.1f %%", change, width);
}

static const char *change_text(const struct check_item *i, struct arena *arena)
{
    const char *sign = i->change.change > 0 ? "+" : "";
    return arena_printf(arena, "%s%s ± %s (%s)", sign, value_text(i, i->change.change, arena),
                        value_text(i, i->change.half_width, arena),
                        relative_text(&i->change, arena));
}

static const char *budget_text(const struct check_item *i, struct arena *arena)
{
    return arena_printf(arena, "%.3g %%", 100 * i->budget);
}

static struct str check_item_name(const struct check_item *i)
{
    return i->function.n ? i->function : i->reason && !i->unit.n ? STR("functions") : STR("total");
}

// What a decision still needs.
static const char *needed_text(const struct check_item *i, struct arena *arena)
{
    enum { MANY = 1000 };
    if (i->reason)
        return i->reason;
    if (i->needed > MANY)
        return "the change is too close to the budget; raise it or reduce noise";
    return i->needed
               ? arena_printf(arena, "about %zu runs per side are needed to decide", i->needed)
               : "several runs per side are needed: one says nothing about how runs differ";
}

// All of it but the names.
static const char *item_text(const struct check_item *i, struct arena *arena)
{
    if (i->reason)
        return i->reason;
    bool undecided = i->verdict == CHECK_UNDECIDED;
    return arena_printf(
        arena, "%s before, %s after, %s, budget %s%s%s", value_text(i, i->change.before, arena),
        value_text(i, i->change.after, arena), change_text(i, arena), budget_text(i, arena),
        undecided ? "; " : "", undecided ? needed_text(i, arena) : "");
}

// --- text ---

static void put_item(const struct check *c, const struct check_item *i, const struct terminal *t,
                     struct out *out)
{
    static const enum style styles[] = {STYLE_NONE, STYLE_WARM, STYLE_MORE};
    terminal_put(t, out, str_from(verdicts[i->verdict]), styles[i->verdict], 0);
    out_spaces(out, 11 - strlen(verdicts[i->verdict]));
    terminal_put(t, out, i->type, STYLE_NONE, 0);
    out_text(out, "  ");
    terminal_put(t, out, check_item_name(i), i->function.n ? STYLE_NONE : STYLE_BOLD, 0);
    if (i->moved_from.n) {
        out_text(out, ", moved from ");
        terminal_put(t, out, i->moved_from, STYLE_NONE, 0);
    }
    out_text(out, ": ");
    terminal_put(t, out, str_from(item_text(i, c->arena)), STYLE_NONE, 0);
    out_char(out, '\n');
}

static void put_summary(const struct check *c, struct out *out)
{
    // Four standard deviations: about what the false discovery rate demands of a function.
    const double tenth = 0.1, critical = 4, worth_saying = 0.5;
    double least = critical * sqrt(1 / (tenth * c->events[0]) + 1 / (tenth * c->events[1]));
    out_printf(out,
               "%zu and %zu profile%s, %.0f and %.0f samples: %zu failed, %zu undecided; %zu "
               "function%s improved\n",
               c->n_profiles[0], c->n_profiles[1], str_plural(c->n_profiles[1]), c->events[0],
               c->events[1], c->n_by_verdict[CHECK_FAILED], c->n_by_verdict[CHECK_UNDECIDED],
               c->n_improved, str_plural(c->n_improved));
    if (c->events[0] > 0 && c->events[1] > 0 && least > worth_saying)
        out_printf(out,
                   "Few samples: a function with a tenth of the program must grow by about %.0f "
                   "%% to be found. %s take more samples.\n",
                   100 * least,
                   c->is_heap ? "Longer runs" : "A higher --frequency and longer runs");
}

static void write_check_text(const struct check *c, const struct terminal *t, struct out *out)
{
    for (size_t i = 0; i < c->n; i++)
        put_item(c, &c->items[i], t, out);
    put_summary(c, out);
}

// --- JSON ---

static void put_json_field(struct out *out, const char *name, struct str value)
{
    if (!value.n)
        return;
    out_printf(out, ", \"%s\": ", name);
    json_write_string(out, value);
}

static void put_json_item(const struct check_item *i, struct out *out)
{
    const struct diff_change *d = &i->change;
    out_text(out, "\n{\"type\": ");
    json_write_string(out, i->type);
    put_json_field(out, "unit", i->unit);
    put_json_field(out, "function", i->function);
    put_json_field(out, "moved_from", i->moved_from);
    if (i->reason)
        put_json_field(out, "reason", str_from(i->reason));
    else
        out_printf(out,
                   ", \"before\": %.17g, \"after\": %.17g, \"change\": %.17g, "
                   "\"interval\": [%.17g, %.17g], \"budget\": %.6g",
                   d->before, d->after, d->change, d->change - d->half_width,
                   d->change + d->half_width, i->budget);
    if (i->needed && i->needed != SIZE_MAX)
        out_printf(out, ", \"runs_needed\": %zu", i->needed);
    out_printf(out, ", \"verdict\": \"%s\"}", verdicts[i->verdict]);
}

static void write_json(const struct check *c, struct out *out)
{
    out_printf(out,
               "{\"verdict\": \"%s\", \"profiles\": [%zu, %zu], \"samples\": [%.0f, %.0f], "
               "\"level\": %.6g,\n",
               verdicts[check_outcome(c)], c->n_profiles[0], c->n_profiles[1], c->events[0],
               c->events[1], c->level);
    out_printf(out, "\"improved\": %zu, \"items\": [", c->n_improved);
    for (size_t k = 0; k < c->n; k++) {
        if (k)
            out_char(out, ',');
        put_json_item(&c->items[k], out);
    }
    out_text(out, "\n]}\n");
}

// --- JUnit ---

// Characters that XML does not have become U+FFFD.
static void put_xml(struct out *out, struct str s)
{
    for (size_t i = 0, n; i < s.n; i += n) {
        const unsigned char *p = (const unsigned char *)s.p + i;
        n = json_utf8_length(p, s.n - i);
        if (*p == '<')
            out_text(out, "&lt;");
        else if (*p == '>') // of ]]>
            out_text(out, "&gt;");
        else if (*p == '&')
            out_text(out, "&amp;");
        else if (*p == '"')
            out_text(out, "&quot;");
        else if (n == 0 || *p < 0x20 || (n == 3 && p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe))
            out_text(out, "\xef\xbf\xbd");
        else
            out_write(out, p, n);
        n = n ? n : 1;
    }
}

static void put_junit_item(const struct check *c, const struct check_item *i, struct out *out)
{
    static const char *const elements[] = {"system-out", "skipped", "failure"};
    const char *element = elements[i->verdict];
    bool passed = i->verdict == CHECK_PASSED;
    out_text(out, "  <testcase classname=\"kiln.");
    put_xml(out, i->type);
    out_text(out, "\" name=\"");
    put_xml(out, check_item_name(i));
    out_printf(out, "\">\n    <%s%s", element, passed ? ">" : " message=\"");
    if (i->moved_from.n) {
        out_text(out, "moved from ");
        put_xml(out, i->moved_from);
        out_text(out, ": ");
    }
    put_xml(out, str_from(item_text(i, c->arena)));
    if (passed)
        out_printf(out, "</%s>\n  </testcase>\n", element);
    else
        out_text(out, "\"/>\n  </testcase>\n");
}

static void write_junit(const struct check *c, struct out *out)
{
    out_printf(out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"kiln check\" "
               "tests=\"%zu\" failures=\"%zu\" skipped=\"%zu\">\n",
               c->n, c->n_by_verdict[CHECK_FAILED], c->n_by_verdict[CHECK_UNDECIDED]);
    for (size_t k = 0; k < c->n; k++)
        put_junit_item(c, &c->items[k], out);
    out_text(out, "</testsuite>\n");
}

// --- Markdown ---

static bool is_letter_or_digit(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

// Text that no Markdown means anything in: punctuation that could is written as a character
// reference.
static void put_plain(struct out *out, struct str s, const char *harmless)
{
    for (size_t i = 0, n; i < s.n; i += n) {
        const unsigned char *p = (const unsigned char *)s.p + i;
        n = json_utf8_length(p, s.n - i);
        if (n == 0 || *p < 0x20 || *p == 0x7f)
            out_text(out, "\xef\xbf\xbd");
        else if (n > 1 || is_letter_or_digit(*p) || strchr(harmless, *p))
            out_write(out, p, n);
        else
            out_printf(out, "&#%d;", *p);
        n = n ? n : 1;
    }
}

// Whether a code span in a table's cell shows it as it is: a bar would end the cell, a backtick the
// span, and some parsers take a backslash for an escape.
static bool fits_code_span(struct str s)
{
    for (size_t i = 0, n; i < s.n; i += n) {
        const unsigned char *p = (const unsigned char *)s.p + i;
        n = json_utf8_length(p, s.n - i);
        if (n == 0 || *p < 0x20 || *p == 0x7f || strchr("`|\\", *p))
            return false;
    }
    return s.n && s.p[0] != ' ' && s.p[s.n - 1] != ' ';
}

static void put_code(struct out *out, struct str s)
{
    bool fits = fits_code_span(s);
    out_text(out, fits ? "`" : "<code>");
    if (fits)
        out_str(out, s);
    else
        put_plain(out, s, " ");
    out_text(out, fits ? "`" : "</code>");
}

static void put_cell(struct out *out, const char *text)
{
    out_text(out, " | ");
    put_plain(out, str_from(text), " +-.,%()/");
}

static void put_markdown_name(struct out *out, const struct check_item *i)
{
    if (i->function.n)
        put_code(out, i->function);
    else
        out_printf(out, "**%s**", check_item_name(i).p);
    if (i->moved_from.n) {
        out_text(out, ", moved from ");
        put_code(out, i->moved_from);
    }
}

// As the target of a link.
static void put_path(struct out *out, const char *path)
{
    for (; *path; path++)
        if (is_letter_or_digit((unsigned char)*path) || strchr("/._-~", *path))
            out_char(out, *path);
        else
            out_printf(out, "%%%02X", (unsigned char)*path);
}

static void write_markdown(const struct check *c, struct out *out)
{
    static const char *const signs[] = {"✅", "❔", "❌"};
    static const char *const headings[] = {"no regressions", "not enough data to decide",
                                           "got worse beyond noise and budget"};
    enum check_verdict outcome = check_outcome(c);
    out_printf(out, "### %s kiln check: %s\n\n", signs[outcome], headings[outcome]);
    out_text(out, "| | type | what | before | after | change | budget |\n"
                  "| --- | --- | --- | ---: | ---: | ---: | ---: |\n");
    for (size_t k = 0; k < c->n; k++) {
        const struct check_item *i = &c->items[k];
        out_printf(out, "| %s | ", signs[i->verdict]);
        put_code(out, i->type);
        out_text(out, " | ");
        put_markdown_name(out, i);
        put_cell(out, i->reason ? "" : value_text(i, i->change.before, c->arena));
        put_cell(out, i->reason ? "" : value_text(i, i->change.after, c->arena));
        put_cell(out, i->reason ? "" : change_text(i, c->arena));
        put_cell(out, i->reason ? "" : budget_text(i, c->arena));
        out_text(out, " |\n");
    }
    out_char(out, '\n');
    for (size_t k = 0; k < c->n; k++)
        if (c->items[k].verdict == CHECK_UNDECIDED) {
            put_code(out, c->items[k].type);
            out_printf(out, ", %s: %s.\n\n", check_item_name(&c->items[k]).p,
                       needed_text(&c->items[k], c->arena));
        }
    put_summary(c, out);
    if (*c->picture) {
        out_text(out, "\n![What changed](");
        put_path(out, c->picture);
        out_text(out, ")\n");
    }
}

void check_write(const struct check *c, enum check_format format, const struct terminal *t,
                 struct out *out)
{
    switch (format) {
    case CHECK_TEXT:
        write_check_text(c, t, out);
        break;
    case CHECK_JSON:
        write_json(c, out);
        break;
    case CHECK_JUNIT:
        write_junit(c, out);
        break;
    case CHECK_MARKDOWN:
        write_markdown(c, out);
        break;
    }
}
