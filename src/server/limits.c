#include "server/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "codec/message.h"
#include "model/transform.h"
#include "store/labels.h"

bool limits_is_plain_name(struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i && c >= '0' && c <= '9'))
            return false;
    }
    return name.n > 0;
}

static int compare_limit_labels(const void *a, const void *b)
{
    return str_cmp(((const struct store_label *)a)->name, ((const struct store_label *)b)->name);
}

// The start of the set, for a message.
static const char *describe_labels(const struct store_label *labels, size_t n, char *text,
                                   size_t size)
{
    size_t at = (size_t)snprintf(text, size, "{");
    for (size_t i = 0; i < n && at < size; i++) {
        int name = labels[i].name.n < 40 ? (int)labels[i].name.n : 40;
        int value = labels[i].value.n < 40 ? (int)labels[i].value.n : 40;
        at += (size_t)snprintf(text + at, size - at, "%s%.*s=\"%.*s\"", i ? ", " : "", name,
                               labels[i].name.p, value, labels[i].value.p);
    }
    if (at + 2 < size)
        snprintf(text + at, size - at, "}");
    else
        snprintf(text + size - 5, 5, "...}");
    return text;
}

static struct str find_label_value(const struct store_label *labels, size_t n, struct str name,
                                   bool *there)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(labels[i].name, name)) {
            *there = true;
            return labels[i].value;
        }
    *there = false;
    return (struct str){"", 0};
}

// Labels that the store makes itself, and those of Pyroscope's own plumbing.
static bool is_plumbing(struct str name)
{
    static const char *const names[] = {"__profile_type__", "__type__",        "__unit__",
                                        "__period_type__",  "__period_unit__", "__service_name__",
                                        "__delta__",        "__session_id__",  "__otel__",
                                        "__order__",        "__sampled__"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_eq(name, str_from(names[i])))
            return true;
    return false;
}

int limits_labels(const struct server_limits *limits, struct store_label *labels, size_t *n,
                  struct err *e)
{
    char text[200];
    bool there;
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++)
        if (!is_plumbing(labels[i].name))
            labels[kept++] = labels[i];
    *n = kept;
    if (*n == 0)
        return err_set(e, "error at least one label pair is required per profile");
    find_label_value(labels, *n, STR("service_name"), &there);
    if (!there)
        labels[(*n)++] = (struct store_label){STR("service_name"), STR("unknown_service")};
    if (*n <= limits->labels)
        qsort(labels, *n, sizeof *labels, compare_limit_labels);
    else
        return err_set(e, "profile series '%s' has %zu label names; limit %u",
                       describe_labels(labels, *n, text, sizeof text), *n, limits->labels);
    if (!find_label_value(labels, *n, STR("__name__"), &there).n)
        return err_set(e,
                       "invalid labels '%s' with error: invalid metric name: the label __name__ "
                       "is missing or empty",
                       describe_labels(labels, *n, text, sizeof text));
    if (!find_label_value(labels, *n, STR("service_name"), &there).n)
        return err_set(e, "invalid labels '%s' with error: service name is not provided",
                       describe_labels(labels, *n, text, sizeof text));
    for (size_t i = 0; i < *n; i++) {
        struct str name = labels[i].name, value = labels[i].value;
        int shown = name.n < 60 ? (int)name.n : 60;
        if (!name.n)
            return err_set(e, "invalid labels '%s' with error: a label has an empty name",
                           describe_labels(labels, *n, text, sizeof text));
        if (name.n > limits->label_name)
            return err_set(e, "label name too long: '%.*s...' has %zu bytes; limit %u", shown,
                           name.p, name.n, limits->label_name);
        if (value.n > limits->label_value)
            return err_set(e, "label value too long: that of '%.*s' has %zu bytes; limit %u", shown,
                           name.p, value.n, limits->label_value);
        if (!message_is_utf8(name) || !message_is_utf8(value))
            return err_set(e, "label '%.*s': name or value is not valid UTF-8", shown, name.p);
        if (i && str_eq(name, labels[i - 1].name))
            return err_set(e, "profile with labels '%s' has duplicate label name: '%.*s'",
                           describe_labels(labels, *n, text, sizeof text), shown, name.p);
    }
    return 0;
}

// --- times ---

static const char *limit_time_text(int64_t nanos, char text[32])
{
    time_t seconds = (time_t)(nanos / 1000000000);
    struct tm utc;
    strftime(text, 32, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&seconds, &utc));
    return text;
}

int limits_time(const struct server_limits *limits, int64_t time, int64_t oldest_now, int64_t now,
                bool backfill, const struct store_label *labels, size_t n, struct err *e)
{
    char text[200], at[32], bound[32];
    bool early = limits->past && !backfill && oldest_now - time > limits->past;
    bool late = limits->future && time - now > limits->future;
    if (!early && !late)
        return 0;
    return err_set(
        e,
        "profile with labels '%s' is outside of ingestion window (profile timestamp: %s, "
        "the ingestion window %s at %s); %s",
        describe_labels(labels, n, text, sizeof text), limit_time_text(time, at),
        early ? "starts" : "ends",
        limit_time_text(early ? oldest_now - limits->past : now + limits->future, bound),
        early ? "limits.past bounds it, `kiln push --backfill` sends older profiles"
              : "limits.future bounds it; check the sender's clock");
}

// --- profiles ---

int limits_types(const struct model_profile *p, struct err *e)
{
    if (p->n_types == 0)
        return err_set(e, "malformed profile: no sample types");
    if (p->n_types > KIND_MAX_TYPES)
        return err_set(e, "invalid profile: %u sample types; limit %d", p->n_types, KIND_MAX_TYPES);
    return 0;
}

static int check_strings(const struct model_profile *p, struct err *e)
{
    for (size_t i = 0; i < p->strings->n; i++)
        if (!message_is_utf8(p->strings->items[i]))
            return err_set(e, "malformed profile: string %zu is not valid UTF-8", i);
    for (uint32_t i = 0; i < p->n_types; i++) {
        struct str type = model_str(p, p->types[i].type);
        if (!type.n)
            return err_set(e, "malformed profile: sample type %u has no name", i);
        if (memchr(type.p, '-', type.n))
            return err_set(e, "malformed profile: sample type '%.*s' contains -",
                           type.n < 60 ? (int)type.n : 60, type.p);
    }
    return 0;
}

// A location of neither an address nor a line is a frame that its maker lost: such a stack cannot
// be told from others.
static bool is_lost(const struct model_location *l)
{
    return l->address == 0 && l->n_lines == 0;
}

static bool is_kept(const struct model_profile *p, size_t sample, bool any_lost)
{
    const int64_t *values = model_values(p, sample);
    bool any = false;
    for (uint32_t i = 0; i < p->n_types; i++) {
        if (values[i] < 0)
            return false;
        any |= values[i] > 0;
    }
    for (uint32_t i = 0; any_lost && i < p->stack_len[sample]; i++)
        if (is_lost(&p->locations[p->stacks[sample][i]]))
            return false;
    return any;
}

static int check_sizes(const struct server_limits *limits, const struct model_profile *p,
                       struct err *e)
{
    if (p->n_samples > limits->samples)
        return err_set(e, "the profile has %zu samples; limit %u", p->n_samples, limits->samples);
    for (uint32_t i = 0; i < p->n_label_sets; i++)
        if (p->label_sets[i].n > limits->sample_labels)
            return err_set(e, "a sample of the profile has %u labels; limit %u", p->label_sets[i].n,
                           limits->sample_labels);
    return 0;
}

const struct model_profile *limits_profile(const struct server_limits *limits,
                                           const struct model_profile *p, struct arena *arena,
                                           struct err *e)
{
    if (limits_types(p, e) || check_strings(p, e) || check_sizes(limits, p, e))
        return NULL;
    bool drops = false, cuts = false, shortens = false, lost = false;
    for (uint32_t i = 0; i < p->n_locations; i++)
        lost |= is_lost(&p->locations[i]);
    for (size_t i = 0; i < p->n_samples; i++) {
        drops |= !is_kept(p, i, lost);
        cuts |= p->stack_len[i] > limits->depth;
    }
    for (size_t i = 0; i < p->strings->n; i++)
        shortens |= p->strings->items[i].n > limits->symbol;
    struct model_profile *q = (struct model_profile *)p;
    if (drops) {
        bool *keep = arena_array(arena, p->n_samples, sizeof *keep);
        for (size_t i = 0; i < p->n_samples; i++)
            keep[i] = is_kept(p, i, lost);
        q = model_select_samples(p, keep, arena);
    }
    if (cuts) {
        q = model_profile_derive(q, arena);
        uint32_t **stacks = arena_array(arena, q->n_samples + 1, sizeof *stacks);
        uint32_t *lens = arena_array(arena, q->n_samples + 1, sizeof *lens);
        for (size_t i = 0; i < q->n_samples; i++) {
            uint32_t more = q->stack_len[i] > limits->depth ? q->stack_len[i] - limits->depth : 0;
            stacks[i] = q->stacks[i] + more;
            lens[i] = q->stack_len[i] - more;
        }
        q->stacks = stacks;
        q->stack_len = lens;
    }
    // The strings are the profile's own and nobody else has it yet.
    for (size_t i = 0; shortens && i < q->strings->n; i++) {
        struct str *s = &q->strings->items[i];
        if (s->n > limits->symbol)
            *s = str_from_to(*s, s->n - limits->symbol, s->n);
    }
    return q;
}
