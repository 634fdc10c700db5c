#include "codec/codec.h"

#include "codec/compress.h"
#include "codec/detect.h"
#include "codec/pprof.h"
#include "codec/pprof_stream.h"
#include "model/parallel.h"

static const char *const names[] = {
    [CODEC_AUTO] = "auto",
    [CODEC_PPROF] = "pprof",
    [CODEC_LEGACY] = "legacy",
    [CODEC_JEMALLOC] = "jemalloc",
    [CODEC_FOLDED] = "folded",
    [CODEC_PERF_SCRIPT] = "perf",
    [CODEC_SPEEDSCOPE] = "speedscope",
    [CODEC_CALLGRIND] = "callgrind",
    [CODEC_JSON] = "json",
    [CODEC_CSV] = "csv",
};

const char *codec_format_name(enum codec_format format)
{
    return (size_t)format < sizeof names / sizeof *names ? names[format] : NULL;
}

enum codec_format codec_format_from_name(struct str name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_eq(name, str_from(names[i])))
            return (enum codec_format)i;
    return CODEC_AUTO;
}

// Formats other than pprof's, each recognized by its first bytes. Folded stacks are the least
// distinctive, so they come last.
static const struct {
    enum codec_format format;
    bool (*looks_like)(struct str head);
    struct model_profile *(*read)(struct arena *, const uint8_t *, size_t, struct err *);
} others[] = {
    {CODEC_JEMALLOC, codec_looks_like_jemalloc, codec_read_jemalloc},
    {CODEC_SPEEDSCOPE, codec_looks_like_speedscope, codec_read_speedscope},
    {CODEC_PERF_SCRIPT, codec_looks_like_perf_script, codec_read_perf_script},
    {CODEC_FOLDED, codec_looks_like_folded, codec_read_folded},
};

// From this size on, threads pay off.
enum { WORTH_THREADS = 1 << 20 };

static enum pprof_result read_pprof_data(struct arena *arena, uint8_t *data, size_t n,
                                         bool disposable, const struct codec_parallel *parallel,
                                         struct model_profile **p, struct err *e)
{
    bool is_large = n >= WORTH_THREADS || parallel_is_explicit();
    if (!parallel || !is_large)
        return pprof_read(arena, data, n, disposable, p, e);
    unsigned threads = parallel->threads ? parallel->threads : parallel_threads();
    if (threads == 1 && !parallel->keeps_encoded)
        return pprof_read(arena, data, n, disposable, p, e);
    struct pprof_stream_options options = {
        .threads = threads,
        .keeps_encoded = parallel->keeps_encoded,
        .is_mapped_file = parallel->is_mapped_file && !disposable,
        .is_disposable = disposable,
    };
    return pprof_read_stream(arena, data, n, &options, p, e);
}

static struct model_profile *read_inflated(struct arena *arena, uint8_t *data, size_t n,
                                           bool disposable, const struct codec_parallel *parallel,
                                           enum codec_format *format, struct err *e)
{
    if (n == 0) {
        err_set(e, "empty input file");
        return NULL;
    }
    struct model_profile *p = NULL;
    *format = CODEC_PPROF;
    enum pprof_result result = read_pprof_data(arena, data, n, disposable, parallel, &p, e);
    if (result != PPROF_NOT)
        return result == PPROF_OK ? p : NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (others[i].looks_like((struct str){(const char *)data, n})) {
            *format = others[i].format;
            return others[i].read(arena, data, n, e);
        }
    }
    *format = CODEC_LEGACY;
    return codec_read_legacy(arena, data, n, e);
}

struct model_profile *codec_read(struct arena *arena, const uint8_t *data, size_t n,
                                 const struct codec_limits *limits, enum codec_format *format_read,
                                 struct err *e)
{
    return codec_read_parallel(arena, data, n, limits, NULL, format_read, e);
}

struct model_profile *codec_read_parallel(struct arena *arena, const uint8_t *data, size_t n,
                                          const struct codec_limits *limits,
                                          const struct codec_parallel *parallel,
                                          enum codec_format *format_read, struct err *e)
{
    size_t limit = limits && limits->inflated ? limits->inflated : (size_t)1 << 30;
    enum codec_format ignored;
    if (!format_read)
        format_read = &ignored;
    if (!compress_is_gzip(data, n) && !compress_is_zstd(data, n))
        // Not disposable: the caller owns data, and the reader does not write to it.
        return read_inflated(arena, (uint8_t *)data, n, false, parallel, format_read, e);
    struct compress_bytes bytes = {.budget = arena_budget(arena)};
    if (compress_inflate(data, n, limit, &bytes, e))
        return NULL;
    struct model_profile *p =
        read_inflated(arena, bytes.p, bytes.n, true, parallel, format_read, e);
    if (!p || !p->stream)
        compress_bytes_fini(&bytes);
    return p;
}
