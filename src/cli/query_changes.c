#include "cli/query_changes.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/remote_profile.h"
#include "cli/terminal.h"
#include "codec/json_read.h"
#include "model/units.h"
#include "query/query.h"

enum { MAX_PAGES = 1000 };

// The list is by service: of a selector, that is what it may say.
static int service_of(const struct query_changes *q, struct str *service, struct err *e)
{
    struct query_selector s;
    *service = STR("");
    if (query_selector(str_from(q->selector), q->arena, &s, e))
        return -1;
    if (s.n > 1 || (s.n == 1 && (s.matchers[0].op != STORE_EQ ||
                                 !str_eq(s.matchers[0].name, STR("service_name")))))
        return err_set(e, "invalid selector; changes takes only {service_name=\"...\"}");
    if (s.n)
        *service = s.matchers[0].value;
    return 0;
}

static const char *changes_path(const struct query_changes *q, struct str service,
                                struct str cursor)
{
    const struct {
        const char *name;
        struct str value;
    } parameters[] = {
        {"from", str_from(q->from)},
        {"until", str_from(q->until)},
        {"state", str_from(q->state ? q->state : "")},
        {"profileTypeID", str_from(q->type ? q->type : "")},
        {"service_name", service},
        {"cursor", cursor},
    };
    struct out path;
    out_init_arena(&path, q->arena);
    out_text(&path, "/api/v1/changes");
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        struct str value = parameters[i].value;
        if (i && !value.n)
            continue;
        out_printf(&path, "%c%s=", i ? '&' : '?', parameters[i].name);
        remote_escape(&path, arena_copy(q->arena, value.p, value.n));
    }
    out_char(&path, '\0');
    return path.p;
}

static struct str text_of(const struct query_changes *q, struct json change, const char *key)
{
    struct str text = json_string(json_get(change, key), q->arena);
    return text.p ? text : STR("");
}

static double json_number_of(struct json change, const char *key)
{
    double value;
    return json_double(json_get(change, key), &value) ? value : 0;
}

static const char *change_amount(const struct query_changes *q, double value, struct str unit,
                                 bool sign)
{
    char text[96];
    return arena_copy(q->arena, text, units_amount(text, sizeof text, value, unit, sign));
}

// The deploy, and the version that it was compared with.
static struct str deploy_of(const struct query_changes *q, struct json change)
{
    struct str deploy = text_of(q, json_get(change, "deploy"), "text");
    struct json versions = json_get(change, "versions");
    struct str before = text_of(q, versions, "before"), after = text_of(q, versions, "after");
    struct str label = text_of(q, versions, "label");
    if (!label.n)
        return deploy;
    return str_from(arena_printf(q->arena, "%.*s=%.*s beside %.*s (%.0f %%)", (int)label.n, label.p,
                                 (int)after.n, after.p, (int)before.n, before.p,
                                 100 * json_number_of(versions, "part")));
}

static void write_change(const struct query_changes *q, const struct terminal *t, struct json c,
                         struct out *out)
{
    struct str unit = text_of(q, c, "valueUnit"), function = text_of(q, c, "function");
    double cost = json_number_of(c, "cost");
    const struct {
        struct str text;
        enum style style;
    } columns[] = {
        {text_of(q, c, "id"), STYLE_DIM},
        {str_from(remote_time(json_number_of(c, "time"), q->arena)), STYLE_NONE},
        {str_from(change_amount(q, cost, text_of(q, c, "costUnit"), true)),
         cost > 0 ? STYLE_MORE : STYLE_LESS},
        {str_from(arena_printf(q->arena, "%s -> %s",
                               change_amount(q, json_number_of(c, "before"), unit, false),
                               change_amount(q, json_number_of(c, "after"), unit, false))),
         STYLE_NONE},
        {text_of(q, c, "state"), STYLE_DIM},
        {text_of(q, c, "serviceName"), STYLE_BOLD},
        {function.n ? function : STR("(the whole service)"), STYLE_NONE},
        {deploy_of(q, c), STYLE_DIM},
    };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        if (!columns[i].text.n)
            continue;
        out_text(out, i ? "  " : "");
        terminal_put(t, out, columns[i].text, columns[i].style, 0);
    }
    out_char(out, '\n');
}

int query_changes(const struct query_changes *q, struct err *e)
{
    struct str service, cursor = STR("");
    struct terminal t = terminal_stdout("auto");
    struct out out;
    bool enabled = true;
    size_t n = 0;
    if (service_of(q, &service, e))
        return -1;
    out_init_fd(&out, STDOUT_FILENO);
    int result = 0;
    for (int page = 0; page < MAX_PAGES; page++) {
        struct str text;
        struct json root;
        if (remote_call(&q->remote, changes_path(q, service, cursor), NULL, (struct str){NULL, 0},
                        q->arena, &text, e) ||
            json_parse(q->arena, text, &root, e)) {
            result = -1;
            break;
        }
        if (q->json)
            out_str(&out, text);
        for (struct json_each i = json_each(json_get(root, "changes")); json_next(&i); n++)
            if (!q->json)
                write_change(q, &t, i.value, &out);
        enabled = json_kind(json_get(root, "enabled")) == JSON_ABSENT ||
                  json_is_true(json_get(root, "enabled"));
        cursor = text_of(q, root, "next");
        if (!cursor.n)
            break;
    }
    if (!result && !n)
        fprintf(stderr, "kiln: no changes with %s from %s until %s%s\n", q->selector, q->from,
                q->until,
                enabled ? ""
                        : ": the server does not search for changes; set changes.enabled in its "
                          "configuration");
    if (!result)
        result = out_finish(&out, e);
    out_fini(&out);
    return result;
}
