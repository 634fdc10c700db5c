// kiln push: sends profiles from files to a server.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/own_flags.h"
#include "cli/remote.h"
#include "codec/codec.h"
#include "codec/proto.h"

enum { PATIENCE_SECONDS = 120 }; // how long to retry if the server is busy

// The server's service_name for profiles without one.
#define DEFAULT_SERVICE "unknown_service"

struct push {
    struct remote remote;
    struct str labels[64]; // name=value
    size_t n_labels;
    bool backfill;
    const char **files;
    size_t n_files;
    struct arena *arena;
};

static bool contains_text(struct str s, const char *part)
{
    return str_find(s, str_from(part), 0) != SIZE_MAX;
}

// The value of `__name__` if no label sets it.
static struct str guess_metric_name(const struct model_profile *p)
{
    for (uint32_t i = 0; i < p->n_types; i++) {
        struct str type = model_str(p, p->types[i].type);
        if (str_eq(type, STR("wall")))
            return STR("wall");
        if (contains_text(type, "cpu") || str_eq(type, STR("samples")))
            return STR("process_cpu");
        if (contains_text(type, "alloc_") || contains_text(type, "inuse_") ||
            str_eq(type, STR("space")) || str_eq(type, STR("objects")))
            return STR("memory");
        if (str_eq(type, STR("contentions")) || str_eq(type, STR("delay")))
            return STR("mutex");
    }
    return p->n_types ? model_str(p, p->types[0].type) : STR("profile");
}

static void put_bytes(struct out *out, unsigned field, struct str s)
{
    proto_put_varint(out, field << 3 | WIRE_BYTES);
    proto_put_varint(out, s.n);
    out_str(out, s);
}

static void put_request_label(struct push *p, struct out *out, struct str name, struct str value)
{
    struct out pair;
    out_init_arena(&pair, p->arena);
    put_bytes(&pair, 1, name);
    put_bytes(&pair, 2, value);
    put_bytes(out, 1, out_result(&pair));
}

static bool push_has_label(const struct push *p, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < p->n_labels; i++)
        if (p->labels[i].n > n && memcmp(p->labels[i].p, name, n) == 0 && p->labels[i].p[n] == '=')
            return true;
    return false;
}

static struct model_profile *read_pushed_file(struct push *p, const char *name, struct err *e)
{
    struct out bytes;
    char buffer[65536];
    int fd = strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_set(e, "%s: %s", name, strerror(errno));
        return NULL;
    }
    out_init_arena(&bytes, p->arena);
    ssize_t n;
    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        out_write(&bytes, buffer, (size_t)n);
    if (n < 0)
        err_set(e, "%s: %s", name, strerror(errno));
    if (fd != STDIN_FILENO)
        close(fd);
    if (n < 0)
        return NULL;
    struct model_profile *profile =
        codec_read(p->arena, (const uint8_t *)bytes.p, bytes.n, NULL, NULL, e);
    if (!profile)
        err_prefix(e, "%s: ", name);
    return profile;
}

static void print_pushed(const struct push *p, const char *name,
                         const struct model_profile *profile)
{
    struct str metric = guess_metric_name(profile);
    const char *separator = "";
    printf("%s: stored %zu sample%s as {", name, (size_t)profile->n_samples,
           str_plural(profile->n_samples));
    if (!push_has_label(p, "__name__")) {
        printf("__name__=\"%.*s\"", (int)metric.n, metric.p);
        separator = ", ";
    }
    if (!push_has_label(p, "service_name")) {
        printf("%sservice_name=\"%s\"", separator, DEFAULT_SERVICE);
        separator = ", ";
    }
    for (size_t i = 0; i < p->n_labels; i++) {
        size_t n = strcspn(p->labels[i].p, "=");
        printf("%s%.*s=\"%s\"", separator, (int)n, p->labels[i].p, p->labels[i].p + n + 1);
        separator = ", ";
    }
    puts("}");
}

static int push_file(struct push *p, const char *name, struct err *e)
{
    const struct model_profile *profile = read_pushed_file(p, name, e);
    struct out packed, series, sample, request;
    if (!profile)
        return -1;
    out_init_arena(&packed, p->arena);
    out_init_arena(&series, p->arena);
    out_init_arena(&sample, p->arena);
    out_init_arena(&request, p->arena);
    if (codec_write_pprof_gzip(profile, &packed, e))
        return err_prefix(e, "%s: ", name);
    if (!push_has_label(p, "__name__"))
        put_request_label(p, &series, STR("__name__"), guess_metric_name(profile));
    for (size_t i = 0; i < p->n_labels; i++) {
        size_t n =
            (size_t)((const char *)memchr(p->labels[i].p, '=', p->labels[i].n) - p->labels[i].p);
        put_request_label(p, &series, str_from_to(p->labels[i], 0, n),
                          str_from_to(p->labels[i], n + 1, p->labels[i].n));
    }
    put_bytes(&sample, 1, out_result(&packed));
    put_bytes(&series, 2, out_result(&sample));
    put_bytes(&request, 1, out_result(&series));
    struct str answer;
    if (remote_call(&p->remote,
                    p->backfill ? "/push.v1.PusherService/Push?backfill=1"
                                : "/push.v1.PusherService/Push",
                    "application/proto", out_result(&request), p->arena, &answer, e))
        return err_prefix(e, "%s: ", name);
    print_pushed(p, name, profile);
    return 0;
}

static int parse_push(struct push *p, int argc, char **argv, struct err *e)
{
    p->files = arena_array(p->arena, (size_t)argc + 1, sizeof *p->files);
    for (int i = 1; i < argc; i++) {
        const char *value;
        int taken = remote_option(&p->remote, argc, argv, &i, e);
        if (taken < 0)
            return -1;
        if (taken)
            continue;
        taken = remote_value("label", argc, argv, &i, &value, e);
        if (taken < 0)
            return -1;
        if (taken) {
            if (!strchr(value, '=') || *value == '=')
                return err_set(e, "invalid --label \"%s\"; expected NAME=VALUE", value);
            if (p->n_labels == sizeof p->labels / sizeof *p->labels)
                return err_set(e, "more than 64 --label options");
            p->labels[p->n_labels++] = str_from(value);
        } else if (strcmp(argv[i], "--backfill") == 0) {
            p->backfill = true;
        } else if (argv[i][0] == '-' && argv[i][1]) {
            return own_flag_unknown("push", argv[i], e);
        } else {
            p->files[p->n_files++] = argv[i];
        }
    }
    return p->n_files ? 0
                      : err_set(e, "no profile; name a file, or - for standard input; see `kiln "
                                   "push --help`");
}

int command_push(int argc, char **argv)
{
    struct err e = {""};
    struct push p = {.remote = remote_default(), .arena = source_arena_new()};
    p.remote.patience = PATIENCE_SECONDS;
    int result = p.arena ? parse_push(&p, argc, argv, &e) : err_set(&e, "out of memory");
    for (size_t i = 0; !result && i < p.n_files; i++)
        result = push_file(&p, p.files[i], &e);
    arena_free(p.arena);
    if (result)
        fprintf(stderr, "kiln: %s\n", e.message);
    return result ? 2 : 0;
}
