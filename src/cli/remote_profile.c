#include "cli/remote_profile.h"

#include <errno.h>
#include <math.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "codec/codec.h"
#include "server/ingest_name.h"
#include "server/server.h"

int64_t remote_milliseconds(const char *text)
{
    int64_t time;
    return (ingest_time(str_from(text), server_now(), &time) ? time : INT64_MAX) / 1000000;
}

const char *remote_time(double milliseconds, struct arena *arena)
{
    const double latest = 253402300799; // end of the year 9999
    time_t seconds = (time_t)fmax(fmin(milliseconds / 1000, latest), -latest);
    struct tm utc;
    char text[32];
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    return arena_printf(arena, "%s", text);
}

void *remote_query(const struct remote *r, const char *method, const struct message *request,
                   const void *object, const struct message *answer, struct arena *arena,
                   struct err *e)
{
    struct out out;
    struct str bytes;
    out_init_arena(&out, arena);
    message_write_proto(request, object, &out);
    const char *path = arena_printf(arena, "/querier.v1.QuerierService/%s", method);
    if (remote_call(r, path, "application/proto", out_result(&out), arena, &bytes, e))
        return NULL;
    return message_read_proto(answer, arena, (const uint8_t *)bytes.p, bytes.n, e);
}

const struct message_list *remote_labels(const struct remote *r, const struct remote_range *range,
                                         const char *label, struct arena *arena, struct err *e)
{
    struct str selector = str_from(range->selector);
    struct labels_request q = {
        .start = range->start,
        .end = range->end,
        .name = label ? str_from(label) : STR(""),
        .matchers = {&selector, 1, 1, false},
    };
    struct names_answer *a = label ? remote_query(r, "LabelValues", &label_values_request_message,
                                                  &q, &names_answer_message, arena, e)
                                   : remote_query(r, "LabelNames", &label_names_request_message, &q,
                                                  &names_answer_message, arena, e);
    return a ? &a->names : NULL;
}

const char *remote_choose_type(const struct message_list *types, struct arena *arena, bool *is_cpu)
{
    static const char *const best[] = {
        "process_cpu:cpu:", ":cpu:", ":wall:", ":samples:", ":inuse_space:", ":alloc_space:", ":"};
    const struct str *ids = types->items;
    for (size_t k = 0; k < sizeof best / sizeof *best; k++)
        for (size_t i = 0; i < types->n; i++)
            if (str_find(ids[i], str_from(best[k]), 0) != SIZE_MAX) {
                *is_cpu = k == 0;
                return arena_copy(arena, ids[i].p, ids[i].n);
            }
    return NULL;
}

// The sum of a type over a range, excluding points at its start.
static int sum_of_type(const struct remote *r, struct str type, const struct merge_request *range,
                       double *sum, struct arena *arena, struct err *e)
{
    struct series_request q = {.type = type,
                               .selector = range->selector,
                               .start = range->start,
                               .end = range->end,
                               .step = (double)(range->end - range->start) / 1000};
    struct series_answer *a = remote_query(r, "SelectSeries", &series_request_message, &q,
                                           &series_answer_message, arena, e);
    const struct point_series *series = a ? a->series.items : NULL;
    *sum = 0;
    for (size_t i = 0; a && i < a->series.n; i++) {
        const struct series_point *points = series[i].points.items;
        for (size_t k = 0; k < series[i].points.n; k++)
            *sum += points[k].time > range->start ? points[k].value : 0;
    }
    return a ? 0 : -1;
}

// Sets the period to the average weight of a sample. A merged profile has the constant period that
// Pyroscope's clients expect; the noise of a change depends on the number of samples, which the
// server knows.
static int set_sample_period(const struct remote *r, const struct merge_request *q,
                             struct str *profile, struct arena *arena, struct err *e)
{
    struct str counts = query_count_type(q->type, arena);
    double value, n;
    if (!counts.n || str_eq(counts, q->type) || q->end - q->start < 2)
        return 0;
    if (sum_of_type(r, counts, q, &n, arena, e) || sum_of_type(r, q->type, q, &value, arena, e))
        return -1;
    if (!(n > 0) || !(value >= n))
        return 0;
    // In protobuf, the last occurrence of a field wins.
    struct out out;
    out_init_arena(&out, arena);
    out_str(&out, *profile);
    message_write_proto(&pprof_message, &(struct pprof_profile){.period = llround(value / n)},
                        &out);
    *profile = out_result(&out);
    return 0;
}

static struct merge_request request_of(const struct remote_range *range)
{
    return (struct merge_request){
        .type = str_from(range->type),
        .selector = str_from(range->selector),
        .start = range->start,
        .end = range->end,
    };
}

static int open_profile_file(struct str bytes, struct arena *arena, const char **name,
                             struct err *e)
{
    int fd = memfd_create("kiln-query", 0);
    if (fd < 0 || write(fd, bytes.p, bytes.n) != (ssize_t)bytes.n)
        return err_set(e, "no memory for the profile: %s", strerror(errno));
    *name = arena_printf(arena, "/proc/self/fd/%d", fd);
    return 0;
}

// Fetches from kiln's own endpoint, whose profiles have event weights. Returns 1 if the server does
// not have it or cannot answer.
static int flame_profile(const struct remote *r, const struct remote_range *range,
                         const struct remote_range *other, const char *format, struct arena *arena,
                         const char **name, struct err *e)
{
    struct merge_request q = request_of(range), base;
    struct flame_request request = {.profile = &q, .format = str_from(format)};
    struct err ignored;
    struct out out;
    struct str bytes;
    if (other) {
        base = request_of(other);
        request.base = &base;
    }
    *name = NULL;
    out_init_arena(&out, arena);
    message_write_json(&flame_request_message, &request, &out);
    if (remote_call(r, "/api/v1/flame", "application/json", out_result(&out), arena, &bytes,
                    &ignored))
        return 1;
    const struct model_profile *p =
        codec_read(arena, (const uint8_t *)bytes.p, bytes.n, NULL, NULL, &ignored);
    if (!p)
        return 1;
    return p->n_samples ? open_profile_file(bytes, arena, name, e) : 0;
}

int remote_blocks(const struct remote *r, const struct remote_range *range,
                  const struct remote_range *other, struct arena *arena, const char **name,
                  struct err *e)
{
    int result = flame_profile(r, range, other, "blocks", arena, name, e);
    return result > 0 ? remote_profile(r, range, arena, name, e) : result;
}

int remote_profile(const struct remote *r, const struct remote_range *range, struct arena *arena,
                   const char **name, struct err *e)
{
    struct merge_request q = request_of(range);
    struct out out;
    struct str bytes;
    int result = flame_profile(r, range, NULL, "pprof", arena, name, e);
    if (result <= 0)
        return result;
    *name = NULL;
    out_init_arena(&out, arena);
    message_write_proto(&profile_request_message, &q, &out);
    if (remote_call(r, "/querier.v1.QuerierService/SelectMergeProfile", "application/proto",
                    out_result(&out), arena, &bytes, e))
        return -1;
    if (!bytes.n)
        return 0;
    if (set_sample_period(r, &q, &bytes, arena, e))
        return -1;
    return open_profile_file(bytes, arena, name, e);
}

int remote_is_counted(const struct remote *r, const struct remote_range *range, bool *is_counted,
                      struct arena *arena, struct err *e)
{
    struct merge_request q = request_of(range);
    struct str counts = query_count_type(q.type, arena);
    double n = 0;
    *is_counted = str_eq(counts, q.type);
    if (!counts.n || *is_counted)
        return 0;
    if (sum_of_type(r, counts, &q, &n, arena, e))
        return -1;
    *is_counted = n > 0;
    return 0;
}
