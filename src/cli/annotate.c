// kiln annotate: adds a note to a server, to which changes are attributed.
#include <stdio.h>
#include <stdlib.h>

#include "cli/own_flags.h"
#include "cli/remote.h"
#include "cli/remote_profile.h"
#include "codec/json.h"
#include "codec/json_read.h"

enum { MAX_TAGS = 64, PATIENCE_SECONDS = 60 };

struct annotate {
    struct remote remote;
    const char *tags[MAX_TAGS];
    size_t n_tags;
    const char *service, *time, *until, *text;
    struct arena *arena;
};

static int add_annotation_tag(struct annotate *a, const char *tag, struct err *e)
{
    if (a->n_tags == MAX_TAGS)
        return err_set(e, "more than %d tags", MAX_TAGS);
    a->tags[a->n_tags++] = tag;
    return 0;
}

static int parse_annotate(struct annotate *a, int argc, char **argv, struct err *e)
{
    const struct {
        const char *name;
        const char **value;
    } options[] = {{"service", &a->service}, {"time", &a->time}, {"until", &a->until}};
    for (int i = 1; i < argc; i++) {
        const char *tag = NULL;
        int taken = remote_option(&a->remote, argc, argv, &i, e);
        if (!taken)
            taken = remote_value("tag", argc, argv, &i, &tag, e);
        if (taken > 0 && tag && add_annotation_tag(a, tag, e))
            return -1;
        for (size_t k = 0; !taken && k < sizeof options / sizeof *options; k++)
            taken = remote_value(options[k].name, argc, argv, &i, options[k].value, e);
        if (taken < 0)
            return -1;
        if (taken)
            continue;
        if (argv[i][0] == '-' && argv[i][1])
            return own_flag_unknown("annotate", argv[i], e);
        if (a->text)
            return err_set(e, "more than one text: \"%s\"; quote the text", argv[i]);
        a->text = argv[i];
    }
    if (!a->text || !*a->text)
        return err_set(e, "no text; try `kiln annotate --service shop \"version 1.4.2\"`");
    if (a->service)
        return add_annotation_tag(a, arena_printf(a->arena, "service_name:%s", a->service), e);
    return 0;
}

static int put_annotation_time(struct out *body, const char *key, const char *option,
                               const char *time, struct err *e)
{
    int64_t ms = remote_milliseconds(time);
    if (ms <= 0 || ms >= INT64_MAX / 1000000)
        return err_set(e, "--%s: invalid time \"%s\"; examples: now-1h, 1700000000, 20240131",
                       option, time);
    out_printf(body, ",\"%s\":%lld", key, (long long)ms);
    return 0;
}

static int send_annotation(struct annotate *a, struct err *e)
{
    struct out body;
    struct str answer;
    struct json root;
    int64_t id;
    out_init_arena(&body, a->arena);
    out_text(&body, "{\"text\":");
    json_write_string(&body, str_from(a->text));
    out_text(&body, ",\"tags\":[");
    for (size_t i = 0; i < a->n_tags; i++) {
        out_text(&body, i ? "," : "");
        json_write_string(&body, str_from(a->tags[i]));
    }
    out_char(&body, ']');
    if ((a->time && put_annotation_time(&body, "time", "time", a->time, e)) ||
        (a->until && put_annotation_time(&body, "timeEnd", "until", a->until, e)))
        return -1;
    out_char(&body, '}');
    a->remote.patience = PATIENCE_SECONDS;
    if (remote_call(&a->remote, "/api/v1/annotations", "application/json", out_result(&body),
                    a->arena, &answer, e))
        return -1;
    if (json_parse(a->arena, answer, &root, e) || !json_i64(json_get(root, "id"), &id))
        return err_set(e, "%s: invalid response; expected a kiln server", a->remote.server);
    printf("%lld\n", (long long)id);
    return 0;
}

int command_annotate(int argc, char **argv)
{
    struct err e = {""};
    struct annotate a = {.remote = remote_default(), .arena = source_arena_new()};
    int result = a.arena ? parse_annotate(&a, argc, argv, &e) : err_set(&e, "out of memory");
    if (!result)
        result = send_annotation(&a, &e);
    arena_free(a.arena);
    if (result < 0)
        fprintf(stderr, "kiln: %s\n", e.message);
    return result < 0 ? 2 : 0;
}
