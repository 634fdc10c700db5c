// kiln query: a server's profiles in the terminal. What the server merges is shown by the commands
// that read files.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/remote.h"
#include "codec/message.h"
#include "server/ingest_name.h"
#include "server/query_messages.h"
#include "server/server.h"

struct query {
    struct remote remote;
    const char *what; // types, labels, series, top, ...
    const char *type, *from, *until, *label, *step, *by;
    const char *base_from, *base_until; // of diff
    const char *selector, *base;
    const char **rest; // for the command that shows it
    size_t n_rest;
    struct arena *arena;
};

static int64_t milliseconds(const char *text)
{
    int64_t time;
    // The server tells what is wrong with a time that does not fit.
    return (ingest_time(str_from(text), server_now(), &time) ? time : INT64_MAX) / 1000000;
}

static void *call(const struct query *q, const char *method, const struct message *request,
                  const void *object, const struct message *answer, struct err *e)
{
    struct out out;
    struct str bytes;
    out_init_arena(&out, q->arena);
    message_write_proto(request, object, &out);
    const char *path = arena_printf(q->arena, "/querier.v1.QuerierService/%s", method);
    if (remote_call(&q->remote, path, "application/proto", out_result(&out), q->arena, &bytes, e))
        return NULL;
    return message_read_proto(answer, q->arena, (const uint8_t *)bytes.p, bytes.n, e);
}

static void print_names(const struct message_list *names)
{
    const struct str *items = names->items;
    for (size_t i = 0; i < names->n; i++)
        printf("%.*s\n", (int)items[i].n, items[i].p);
}

// The names of labels, or the values of one.
static const struct message_list *ask_labels(const struct query *q, const char *label,
                                             struct err *e)
{
    struct str selector = str_from(q->selector);
    struct labels_request r = {
        .start = milliseconds(q->from),
        .end = milliseconds(q->until),
        .name = label ? str_from(label) : STR(""),
        .matchers = {&selector, 1, 1, false},
    };
    struct names_answer *a =
        label ? call(q, "LabelValues", &label_values_request_message, &r, &names_answer_message, e)
              : call(q, "LabelNames", &label_names_request_message, &r, &names_answer_message, e);
    return a ? &a->names : NULL;
}

static int print_labels(const struct query *q, const char *label, struct err *e)
{
    const struct message_list *names = ask_labels(q, label, e);
    if (names)
        print_names(names);
    return names ? 0 : -1;
}

// The type that is shown where nobody says which: CPU time, else what comes closest.
static int choose_type(struct query *q, struct err *e)
{
    static const char *const best[] = {
        "process_cpu:cpu:", ":cpu:", ":wall:", ":samples:", ":inuse_space:", ":alloc_space:", ":"};
    if (q->type)
        return 0;
    const struct message_list *types = ask_labels(q, "__profile_type__", e);
    if (!types)
        return -1;
    const struct str *ids = types->items;
    for (size_t k = 0; k < sizeof best / sizeof *best && !q->type; k++)
        for (size_t i = 0; i < types->n && !q->type; i++)
            if (str_find(ids[i], str_from(best[k]), 0) != SIZE_MAX)
                q->type = arena_copy(q->arena, ids[i].p, ids[i].n);
    if (!q->type)
        return err_set(e, "no profiles with %s from %s until %s", q->selector, q->from, q->until);
    if (!strstr(q->type, best[0]))
        fprintf(stderr,
                "kiln query: shows %s; --type shows another, `kiln query types` lists them\n",
                q->type);
    return 0;
}

static int print_series(const struct query *q, struct err *e)
{
    struct str by = str_from(q->by ? q->by : "");
    struct series_request r = {
        .type = str_from(q->type),
        .selector = str_from(q->selector),
        .start = milliseconds(q->from),
        .end = milliseconds(q->until),
        .group_by = {&by, q->by != NULL, 1, false},
    };
    if (!str_to_double(str_from(q->step), &r.step) || r.step <= 0)
        return err_set(e, "--step: '%s' is no number of seconds", q->step);
    struct series_answer *a =
        call(q, "SelectSeries", &series_request_message, &r, &series_answer_message, e);
    const struct point_series *series = a ? a->series.items : NULL;
    for (size_t i = 0; a && i < a->series.n; i++) {
        const struct store_label *labels = series[i].labels.items;
        const struct series_point *points = series[i].points.items;
        for (size_t k = 0; k < series[i].points.n; k++) {
            time_t seconds = (time_t)(points[k].time / 1000);
            struct tm utc;
            char when[32];
            strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
            printf("%s %.17g", when, points[k].value);
            for (size_t l = 0; l < series[i].labels.n; l++)
                printf(" %.*s=%.*s", (int)labels[l].name.n, labels[l].name.p,
                       (int)labels[l].value.n, labels[l].value.p);
            putchar('\n');
        }
    }
    return a ? 0 : -1;
}

// The sum of a type over a range, without what lies at its very start.
static int sum_of(const struct query *q, struct str type, const struct merge_request *range,
                  double *sum, struct err *e)
{
    struct series_request r = {.type = type,
                               .selector = range->selector,
                               .start = range->start,
                               .end = range->end,
                               .step = (double)(range->end - range->start) / 1000};
    struct series_answer *a =
        call(q, "SelectSeries", &series_request_message, &r, &series_answer_message, e);
    const struct point_series *series = a ? a->series.items : NULL;
    *sum = 0;
    for (size_t i = 0; a && i < a->series.n; i++) {
        const struct series_point *points = series[i].points.items;
        for (size_t k = 0; k < series[i].points.n; k++)
            *sum += points[k].time > range->start ? points[k].value : 0;
    }
    return a ? 0 : -1;
}

// What a sample stands for. The period of a merged profile is a constant that Pyroscope's clients
// expect; what of a change is noise follows from the number of samples, which the server knows.
static int weigh(const struct query *q, const struct merge_request *r, struct str *profile,
                 struct err *e)
{
    struct str counts = query_count_type(r->type, q->arena);
    double value, n;
    if (!counts.n || str_eq(counts, r->type) || r->end - r->start < 2)
        return 0;
    if (sum_of(q, counts, r, &n, e) || sum_of(q, r->type, r, &value, e))
        return -1;
    if (!(n > 0) || !(value >= n))
        return 0;
    // Of a field that comes twice the last counts.
    struct out out;
    out_init_arena(&out, q->arena);
    out_str(&out, *profile);
    message_write_proto(&pprof_message, &(struct pprof_profile){.period = llround(value / n)},
                        &out);
    *profile = out_result(&out);
    return 0;
}

// The merged profile in memory, by a name that the commands can open.
static const char *fetch(const struct query *q, const char *selector, const char *from,
                         const char *until, struct err *e)
{
    struct merge_request r = {
        .type = str_from(q->type),
        .selector = str_from(selector),
        .start = milliseconds(from),
        .end = milliseconds(until),
    };
    struct out out;
    struct str bytes;
    out_init_arena(&out, q->arena);
    message_write_proto(&profile_request_message, &r, &out);
    if (remote_call(&q->remote, "/querier.v1.QuerierService/SelectMergeProfile",
                    "application/proto", out_result(&out), q->arena, &bytes, e))
        return NULL;
    if (!bytes.n) {
        err_set(e, "no profiles of type %s with %s from %s until %s", q->type, selector, from,
                until);
        return NULL;
    }
    if (weigh(q, &r, &bytes, e))
        return NULL;
    int fd = memfd_create("kiln-query", 0);
    if (fd < 0 || write(fd, bytes.p, bytes.n) != (ssize_t)bytes.n) {
        err_set(e, "no memory for the profile: %s", strerror(errno));
        return NULL;
    }
    return arena_printf(q->arena, "/proc/self/fd/%d", fd);
}

// Hands the profile to the command of that name, with the options that are its own.
static int show(const struct query *q, struct err *e)
{
    bool diff = strcmp(q->what, "diff") == 0, raw = strcmp(q->what, "pprof") == 0;
    const struct command *command = command_find(raw ? "convert" : q->what);
    if (!command || !(command->run || raw))
        return err_set(e,
                       "'%s' is nothing to ask for: types, labels, series, top, flame, diff, "
                       "pprof, or another command that reads a profile are",
                       q->what);
    const char **argv = arena_array(q->arena, q->n_rest + 5, sizeof *argv);
    int argc = 0;
    argv[argc++] = command->name;
    for (size_t i = 0; i < q->n_rest; i++)
        argv[argc++] = q->rest[i];
    // Another selector is compared over the same time, the same one with the hour before.
    const char *from = q->base_from ? q->base_from : q->base ? q->from : "now-2h";
    const char *until = q->base_until ? q->base_until : q->base ? q->until : "now-1h";
    if (diff && !(argv[argc++] = fetch(q, q->base ? q->base : q->selector, from, until, e)))
        return -1;
    if (!(argv[argc++] = fetch(q, q->selector, q->from, q->until, e)))
        return -1;
    if (raw && !q->n_rest)
        return err_set(e, "pprof: which file? `kiln query pprof OUT.pb.gz`");
    if (raw) { // convert IN OUT
        const char *profile = argv[argc - 1];
        argv[2] = argv[1];
        argv[1] = profile;
        argc = 3;
    }
    return command_main(command, argc, (char **)argv);
}

static int parse(struct query *q, int argc, char **argv, struct err *e)
{
    const struct {
        const char *name;
        const char **value;
    } options[] = {{"type", &q->type},
                   {"from", &q->from},
                   {"until", &q->until},
                   {"label", &q->label},
                   {"step", &q->step},
                   {"by", &q->by},
                   {"base-from", &q->base_from},
                   {"base-until", &q->base_until},
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
        if (argv[i][0] == '{')
            q->selector = argv[i];
        else if (!q->what && argv[i][0] != '-')
            q->what = argv[i];
        else
            q->rest[q->n_rest++] = argv[i];
    }
    return q->what ? 0 : err_set(e, "what? types, labels, series, top, flame, diff or pprof");
}

int command_query(int argc, char **argv)
{
    struct err e = {""};
    struct query q = {
        .remote = remote_default(),
        .from = "now-1h",
        .until = "now",
        .step = "60",
        .selector = "{}",
        .arena = source_arena_new(),
    };
    int result = q.arena ? parse(&q, argc, argv, &e) : err_set(&e, "out of memory");
    if (!result)
        result = strcmp(q.what, "types") == 0    ? print_labels(&q, "__profile_type__", &e)
                 : strcmp(q.what, "labels") == 0 ? print_labels(&q, q.label, &e)
                 : choose_type(&q, &e)           ? -1
                 : strcmp(q.what, "series") == 0 ? print_series(&q, &e)
                                                 : show(&q, &e);
    arena_free(q.arena);
    if (result < 0)
        fprintf(stderr, "kiln query: %s\n", e.message);
    return result < 0 ? 2 : result;
}
