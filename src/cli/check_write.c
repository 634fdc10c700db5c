#include <math.h>
#include <stdio.h>

#include "cli/check.h"
#include "codec/json.h"
#include "model/units.h"

static const char *const verdicts[] = {"passed", "undecided", "failed"};

struct texts {
    char before[64], after[64], change[80], noise[64], relative[64], budget[32];
};

static void value_text(const struct check_item *i, double value, char *text, size_t size)
{
    units_label(text, size, units_truncate(round(value)), i->unit, STR("auto"));
}

static struct texts texts_of(const struct check_item *i)
{
    struct texts t;
    const struct diff_change *c = &i->change;
    value_text(i, c->before, t.before, sizeof t.before);
    value_text(i, c->after, t.after, sizeof t.after);
    value_text(i, c->half_width, t.noise, sizeof t.noise);
    t.change[0] = '+';
    value_text(i, c->change, t.change + (c->change > 0), sizeof t.change - 1);
    if (c->before > 0)
        snprintf(t.relative, sizeof t.relative, "%+.1f %% ± %.1f %%", 100 * c->change / c->before,
                 100 * c->half_width / c->before);
    else
        snprintf(t.relative, sizeof t.relative, c->change > 0 ? "new" : "none");
    snprintf(t.budget, sizeof t.budget, "%.3g %%", 100 * i->budget);
    return t;
}

static struct str name_of(const struct check_item *i)
{
    return i->function.n ? i->function : STR("total");
}

// What is missing for a decision.
static void put_needed(const struct check_item *i, struct out *out)
{
    enum { MANY = 1000 };
    if (i->needed > MANY)
        out_text(out, "the change is too close to the budget; raise it or reduce noise");
    else if (i->needed)
        out_printf(out, "about %zu runs per side are needed to decide", i->needed);
    else
        out_text(out, "several runs per side are needed: one says nothing about how runs differ");
}

// --- text ---

static void put_item(const struct check_item *i, const struct terminal *t, struct out *out)
{
    static const enum style styles[] = {STYLE_NONE, STYLE_WARM, STYLE_MORE};
    struct texts s = texts_of(i);
    terminal_put(t, out, str_from(verdicts[i->verdict]), styles[i->verdict], 0);
    out_spaces(out, 11 - strlen(verdicts[i->verdict]));
    terminal_put(t, out, i->type, STYLE_NONE, 0);
    out_text(out, "  ");
    terminal_put(t, out, name_of(i), i->function.n ? STYLE_NONE : STYLE_BOLD, 0);
    out_printf(out, ": %s before, %s after, %s ± %s (%s), budget %s", s.before, s.after, s.change,
               s.noise, s.relative, s.budget);
    if (i->verdict == CHECK_UNDECIDED) {
        out_text(out, "; ");
        put_needed(i, out);
    }
    out_char(out, '\n');
}

static void put_summary(const struct check *c, struct out *out)
{
    out_printf(out, "%zu and %zu profiles: %zu failed, %zu undecided; %zu functions improved\n",
               c->n_profiles[0], c->n_profiles[1], c->n_by_verdict[CHECK_FAILED],
               c->n_by_verdict[CHECK_UNDECIDED], c->n_improved);
}

static void write_text(const struct check *c, const struct terminal *t, struct out *out)
{
    for (size_t i = 0; i < c->n; i++)
        put_item(&c->items[i], t, out);
    put_summary(c, out);
}

// --- JSON ---

static void write_json(const struct check *c, struct out *out)
{
    out_printf(out, "{\"verdict\": \"%s\", \"profiles\": [%zu, %zu], \"level\": %.6g,\n",
               verdicts[check_outcome(c)], c->n_profiles[0], c->n_profiles[1], c->level);
    out_printf(out, "\"improved\": %zu, \"items\": [", c->n_improved);
    for (size_t k = 0; k < c->n; k++) {
        const struct check_item *i = &c->items[k];
        const struct diff_change *d = &i->change;
        out_text(out, k ? ",\n{\"type\": " : "\n{\"type\": ");
        json_write_string(out, i->type);
        out_text(out, ", \"unit\": ");
        json_write_string(out, i->unit);
        if (i->function.n) {
            out_text(out, ", \"function\": ");
            json_write_string(out, i->function);
        }
        out_printf(out,
                   ", \"before\": %.17g, \"after\": %.17g, \"change\": %.17g, "
                   "\"interval\": [%.17g, %.17g], \"budget\": %.6g, \"verdict\": \"%s\"",
                   d->before, d->after, d->change, d->change - d->half_width,
                   d->change + d->half_width, i->budget, verdicts[i->verdict]);
        if (i->needed && i->needed != SIZE_MAX)
            out_printf(out, ", \"runs_needed\": %zu", i->needed);
        out_char(out, '}');
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

static void write_junit(const struct check *c, struct out *out)
{
    out_printf(out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"kiln check\" "
               "tests=\"%zu\" failures=\"%zu\" skipped=\"%zu\">\n",
               c->n, c->n_by_verdict[CHECK_FAILED], c->n_by_verdict[CHECK_UNDECIDED]);
    for (size_t k = 0; k < c->n; k++) {
        const struct check_item *i = &c->items[k];
        struct texts s = texts_of(i);
        out_text(out, "  <testcase classname=\"kiln.");
        put_xml(out, i->type);
        out_text(out, "\" name=\"");
        put_xml(out, name_of(i));
        if (i->verdict == CHECK_PASSED) {
            out_text(out, "\"/>\n");
            continue;
        }
        out_printf(out, "\">\n    <%s message=\"%s before, %s after, %s (%s), budget %s",
                   i->verdict == CHECK_FAILED ? "failure" : "skipped", s.before, s.after, s.change,
                   s.relative, s.budget);
        if (i->verdict == CHECK_UNDECIDED) {
            out_text(out, "; ");
            put_needed(i, out);
        }
        out_text(out, "\"/>\n  </testcase>\n");
    }
    out_text(out, "</testsuite>\n");
}

// --- Markdown ---

// Names are code; a bar would end the cell, a backtick the code.
static void put_code(struct out *out, struct str s)
{
    out_char(out, '`');
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '|')
            out_text(out, "\\|");
        else
            out_char(out, s.p[i] == '`' || (unsigned char)s.p[i] < 0x20 ? '\'' : s.p[i]);
    out_char(out, '`');
}

static void write_markdown(const struct check *c, struct out *out)
{
    static const char *const signs[] = {"✅", "❔", "❌"};
    static const char *const headings[] = {"no regressions", "not enough runs to decide",
                                           "got worse beyond noise and budget"};
    enum check_verdict outcome = check_outcome(c);
    out_printf(out, "### %s kiln check: %s\n\n", signs[outcome], headings[outcome]);
    out_text(out, "| | type | what | before | after | change | budget |\n"
                  "| --- | --- | --- | ---: | ---: | ---: | ---: |\n");
    for (size_t k = 0; k < c->n; k++) {
        const struct check_item *i = &c->items[k];
        struct texts s = texts_of(i);
        out_printf(out, "| %s | ", signs[i->verdict]);
        put_code(out, i->type);
        out_text(out, " | ");
        if (i->function.n)
            put_code(out, i->function);
        else
            out_text(out, "**total**");
        out_printf(out, " | %s | %s | %s (%s) | %s |\n", s.before, s.after, s.change, s.relative,
                   s.budget);
    }
    out_char(out, '\n');
    for (size_t k = 0; k < c->n; k++)
        if (c->items[k].verdict == CHECK_UNDECIDED) {
            out_printf(out, "%.*s, %.*s: ", (int)c->items[k].type.n, c->items[k].type.p,
                       (int)name_of(&c->items[k]).n, name_of(&c->items[k]).p);
            put_needed(&c->items[k], out);
            out_text(out, ".\n\n");
        }
    put_summary(c, out);
    if (*c->picture)
        out_printf(out, "\n![What changed](%s)\n", c->picture);
}

void check_write(const struct check *c, enum check_format format, const struct terminal *t,
                 struct out *out)
{
    switch (format) {
    case CHECK_TEXT:
        write_text(c, t, out);
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
