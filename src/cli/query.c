// kiln query: a server's profiles in the terminal. What the server merges is shown by the commands
// that read files.
#include <stdio.h>
#include <stdlib.h>

#include "cli/help.h"
#include "cli/own_flags.h"
#include "cli/query_changes.h"
#include "cli/query_function.h"
#include "cli/remote_profile.h"
#include "cli/suggest.h"
#include "server/query_messages.h"

struct query {
    struct remote remote;
    const char *what; // types, labels, series, top, ...
    const char *type, *from, *until, *label, *step, *by, *state;
    const char *base_from, *base_until; // of diff
    const char *selector, *base;
    bool json;         // of function and changes
    const char **rest; // for the command that shows it
    size_t n_rest;
    struct arena *arena;
};

static void *call_querier(const struct query *q, const char *method, const struct message *request,
                          const void *object, const struct message *answer, struct err *e)
{
    return remote_query(&q->remote, method, request, object, answer, q->arena, e);
}

static void print_names(const struct message_list *names)
{
    const struct str *items = names->items;
    for (size_t i = 0; i < names->n; i++)
        printf("%.*s\n", (int)items[i].n, items[i].p);
}

static const struct message_list *ask_labels(const struct query *q, const char *label,
                                             struct err *e)
{
    struct remote_range range = {NULL, q->selector, remote_milliseconds(q->from),
                                 remote_milliseconds(q->until)};
    return remote_labels(&q->remote, &range, label, q->arena, e);
}

static int print_labels(const struct query *q, const char *label, struct err *e)
{
    const struct message_list *names = ask_labels(q, label, e);
    if (names)
        print_names(names);
    return names ? 0 : -1;
}

// Without a selector all services are merged, which is rarely meant: names them.
static int note_services(const struct query *q, struct err *e)
{
    enum { MOST_NAMES = 4 };
    const struct message_list *names = ask_labels(q, "service_name", e);
    const struct str *items = names ? names->items : NULL;
    if (!names || names->n < 2)
        return names ? 0 : -1;
    fprintf(stderr, "kiln: no selector: merges all %zu services (", names->n);
    for (size_t i = 0; i < names->n && i < MOST_NAMES; i++)
        fprintf(stderr, "%s%.*s", i ? ", " : "", (int)items[i].n, items[i].p);
    fprintf(stderr, "%s); select one with '{service_name=\"%.*s\"}'\n",
            names->n > MOST_NAMES ? ", ..." : "", (int)items[0].n, items[0].p);
    return 0;
}

static int choose_query_type(struct query *q, struct err *e)
{
    if (q->type)
        return 0;
    const struct message_list *types = ask_labels(q, "__profile_type__", e);
    if (!types)
        return -1;
    bool is_cpu;
    q->type = remote_choose_type(types, q->arena, &is_cpu);
    if (!q->type)
        return err_set(e, "no profiles with %s from %s until %s", q->selector, q->from, q->until);
    if (!is_cpu)
        fprintf(
            stderr,
            "kiln: no CPU time; shows %s; --type selects another, `kiln query types` lists them\n",
            q->type);
    return 0;
}

static int print_series(const struct query *q, struct err *e)
{
    struct str by = str_from(q->by ? q->by : "");
    struct series_request r = {
        .type = str_from(q->type),
        .selector = str_from(q->selector),
        .start = remote_milliseconds(q->from),
        .end = remote_milliseconds(q->until),
        .group_by = {&by, q->by != NULL, 1, false},
    };
    const char *step = q->step ? q->step : "60";
    if (!str_to_double(str_from(step), &r.step) || r.step <= 0)
        return err_set(e, "invalid --step \"%s\"; expected seconds", step);
    struct series_answer *a =
        call_querier(q, "SelectSeries", &series_request_message, &r, &series_answer_message, e);
    const struct point_series *series = a ? a->series.items : NULL;
    for (size_t i = 0; a && i < a->series.n; i++) {
        const struct store_label *labels = series[i].labels.items;
        const struct series_point *points = series[i].points.items;
        for (size_t k = 0; k < series[i].points.n; k++) {
            printf("%s %.17g", remote_time((double)points[k].time, q->arena), points[k].value);
            for (size_t l = 0; l < series[i].labels.n; l++)
                printf(" %.*s=%.*s", (int)labels[l].name.n, labels[l].name.p,
                       (int)labels[l].value.n, labels[l].value.p);
            putchar('\n');
        }
    }
    return a ? 0 : -1;
}

static int print_function(const struct query *q, struct err *e)
{
    if (q->n_rest != 1)
        return err_set(e, "no function; try `kiln query function NAME '{SELECTOR}'`");
    struct query_function f = {.remote = q->remote,
                               .name = q->rest[0],
                               .type = q->type,
                               .selector = q->selector,
                               .from = q->from,
                               .until = q->until,
                               .step = q->step,
                               .by = q->by,
                               .json = q->json,
                               .arena = q->arena};
    return query_function(&f, e);
}

static int print_changes(const struct query *q, struct err *e)
{
    struct query_changes c = {.remote = q->remote,
                              .selector = q->selector,
                              .type = q->type,
                              .from = q->from ? q->from : "now-14d",
                              .until = q->until,
                              .state = q->state,
                              .json = q->json,
                              .arena = q->arena};
    return query_changes(&c, e);
}

// What is asked for, as the user wrote it.
struct asked {
    const char *selector, *from, *until;
};

static struct remote_range range_of(const struct query *q, const struct asked *a)
{
    return (struct remote_range){q->type, a->selector, remote_milliseconds(a->from),
                                 remote_milliseconds(a->until)};
}

// other: what it is compared with; NULL: nothing.
static const char *fetch_profile(const struct query *q, const struct asked *a,
                                 const struct asked *other, struct err *e)
{
    struct remote_range range = range_of(q, a), compared = other ? range_of(q, other) : range;
    const char *name;
    if (other ? remote_blocks(&q->remote, &range, &compared, q->arena, &name, e)
              : remote_profile(&q->remote, &range, q->arena, &name, e))
        return NULL;
    if (!name)
        err_set(e, "no profiles of type %s with %s from %s until %s", q->type, a->selector, a->from,
                a->until);
    return name;
}

// Hands the profile to the command of that name, with the options that are its own.
static int show_profile(const struct query *q, struct err *e)
{
    bool diff = strcmp(q->what, "diff") == 0, raw = strcmp(q->what, "pprof") == 0;
    const struct command *command = command_find(raw ? "convert" : q->what);
    if (raw && !q->n_rest)
        return err_set(e, "no output file; try `kiln query pprof OUT.pb.gz`");
    const char **argv = arena_array(q->arena, q->n_rest + 5, sizeof *argv);
    int argc = 0;
    argv[argc++] = command->name;
    for (size_t i = 0; i < q->n_rest; i++)
        argv[argc++] = q->rest[i];
    // Another selector is compared over the same time, the same one with the hour before.
    const char *from = q->base_from ? q->base_from : q->base ? q->from : "now-2h";
    const char *until = q->base_until ? q->base_until : q->base ? q->until : "now-1h";
    struct asked before = {q->base ? q->base : q->selector, from, until};
    struct asked now = {q->selector, q->from, q->until};
    if (diff && !(argv[argc++] = fetch_profile(q, &before, &now, e)))
        return -1;
    if (!(argv[argc++] = fetch_profile(q, &now, diff ? &before : NULL, e)))
        return -1;
    if (raw) { // convert IN OUT
        const char *profile = argv[argc - 1];
        argv[2] = argv[1];
        argv[1] = profile;
        argc = 3;
    }
    return command_main(command, argc, (char **)argv);
}

static int parse_query(struct query *q, int argc, char **argv, struct err *e)
{
    const struct {
        const char *name;
        const char **value;
    } options[] = {
        {"type", &q->type},   {"from", &q->from},           {"until", &q->until},
        {"label", &q->label}, {"step", &q->step},           {"by", &q->by},
        {"state", &q->state}, {"base-from", &q->base_from}, {"base-until", &q->base_until},
        {"base", &q->base}};
    q->rest = arena_array(q->arena, (size_t)argc + 1, sizeof *q->rest);
    for (int i = 1; i < argc; i++) {
        int taken = remote_option(&q->remote, argc, argv, &i, e);
        for (size_t k = 0; !taken && k < sizeof options / sizeof *options; k++)
            taken = remote_value(options[k].name, argc, argv, &i, options[k].value, e);
        if (taken < 0)
            return -1;
        if (taken)
            continue;
        if (strcmp(argv[i], "--json") == 0 && q->what &&
            (strcmp(q->what, "function") == 0 || strcmp(q->what, "changes") == 0))
            q->json = true;
        else if (argv[i][0] == '{')
            q->selector = argv[i];
        else if (!q->what && argv[i][0] != '-')
            q->what = argv[i];
        else
            q->rest[q->n_rest++] = argv[i];
    }
    return q->what ? 0
                   : err_set(e, "no query; expected types, labels, series, function, changes, top, "
                                "flame, diff or pprof");
}

static const char *const query_names[] = {"types", "labels", "series", "function", "changes", NULL};

static bool is_own_query(const char *what)
{
    for (const char *const *name = query_names; *name; name++)
        if (strcmp(what, *name) == 0)
            return true;
    return false;
}

// The queries that are not a command's take no arguments, except for a function's name.
static int refuse_argument(const struct query *q, struct err *e)
{
    const char *argument = q->rest[0];
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
        help_command(command_find("query"), stdout);
        return 0;
    }
    if (argument[0] == '-' && argument[1])
        return own_flag_unknown("query", argument, e);
    return err_set(e, "unexpected argument \"%s\"; write a selector as '{service_name=\"%s\"}'",
                   argument, argument);
}

// The queries that are not a command's are in query_names.
static int check_query_name(const struct query *q, struct err *e)
{
    const struct command *command = command_find(q->what);
    if (strcmp(q->what, "pprof") == 0 || (command && command->run))
        return 0;
    if (is_own_query(q->what))
        return 0;
    struct suggestion near = suggest_command(str_from(q->what));
    for (const char *const *name = query_names; *name; name++)
        suggest_try(&near, *name);
    for (const struct command *c = commands; c->name; c++)
        if (c->run)
            suggest_try(&near, c->name);
    if (*near.best)
        return err_set(e, "unknown query \"%s\"; did you mean \"%s\"?", q->what, near.best);
    return err_set(e,
                   "unknown query \"%s\"; expected types, labels, series, function, changes, top, "
                   "flame, diff, pprof, or another command that reads a profile",
                   q->what);
}

static int run_query(struct query *q, struct err *e)
{
    bool changes = strcmp(q->what, "changes") == 0;
    bool selected = q->selector != NULL;
    if (!selected)
        q->selector = "{}";
    if (is_own_query(q->what) && strcmp(q->what, "function") != 0 && q->n_rest)
        return refuse_argument(q, e);
    if (changes)
        return print_changes(q, e);
    if (!q->from)
        q->from = "now-1h";
    if (strcmp(q->what, "types") == 0)
        return print_labels(q, "__profile_type__", e);
    if (strcmp(q->what, "labels") == 0)
        return print_labels(q, q->label, e);
    if (choose_query_type(q, e))
        return -1;
    if (strcmp(q->what, "series") == 0)
        return print_series(q, e);
    if (!selected && note_services(q, e))
        return -1;
    return strcmp(q->what, "function") == 0 ? print_function(q, e) : show_profile(q, e);
}

int command_query(int argc, char **argv)
{
    struct err e = {""};
    struct query q = {.remote = remote_default(), .until = "now", .arena = source_arena_new()};
    int result = q.arena ? parse_query(&q, argc, argv, &e) : err_set(&e, "out of memory");
    if (!result)
        result = check_query_name(&q, &e) ? -1 : run_query(&q, &e);
    arena_free(q.arena);
    if (result < 0)
        fprintf(stderr, "kiln: %s\n", e.message);
    return result < 0 ? 2 : result;
}
