#include "codec/compress.h"

#include "base/arena.h"

#include <libdeflate.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>
#include <zstd.h>

#include "model/parallel.h"

enum {
    // libdeflate takes 20 to 50 ms for this many bytes. Larger data with a budget goes through
    // zlib, which can check the deadline.
    DEFLATE_MOST = 8 << 20,
    INFLATE_MOST = 32 << 20,
    BETWEEN_CHECKS = 1 << 20,
};

bool compress_is_gzip(const uint8_t *data, size_t n)
{
    return n >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

bool compress_is_zstd(const uint8_t *data, size_t n)
{
    return n >= 4 && data[0] == 0x28 && data[1] == 0xb5 && data[2] == 0x2f && data[3] == 0xfd;
}

static int explain_inflate_limit(size_t limit, struct err *e)
{
    return err_set(e,
                   "decompressing profile: it inflates to more than %zu MiB; set KILN_MAX_MIB, or "
                   "limits.profile_size of a server, to allow more",
                   limit >> 20);
}

static int explain_budget(struct budget *budget, const char *what, struct err *e)
{
    budget_explain(budget, e);
    return err_prefix(e, "%s: ", what);
}

// Maps memory for the output. Untouched pages take no memory, so mapping the whole limit is cheap.
static int map_output(struct compress_bytes *bytes, size_t size, struct err *e)
{
    size_t mapped = (size + 4095) & ~(size_t)4095;
    if (bytes->budget && budget_take(bytes->budget, mapped))
        return explain_budget(bytes->budget, "decompressing profile", e);
    bytes->p = arena_map(mapped);
    bytes->mapped = mapped;
    if (bytes->p)
        return 0;
    compress_bytes_fini(bytes);
    return err_set(e, "decompressing profile: out of memory for %zu bytes", size);
}

// Returns the unused pages to the budget.
static void unmap_unused_output(struct compress_bytes *bytes)
{
    size_t used = (bytes->n + 4095) & ~(size_t)4095;
    if (!bytes->budget || used == 0 || used >= bytes->mapped)
        return;
    munmap(bytes->p + used, bytes->mapped - used);
    budget_release(&bytes->budget->account, bytes->mapped - used);
    bytes->mapped = used;
}

static size_t stated_size(const uint8_t *data, size_t n)
{
    const uint8_t *p = data + n - 4;
    return p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
}

static int inflate_gzip(const uint8_t *data, size_t n, size_t limit, struct compress_bytes *bytes,
                        bool *short_of_room, struct err *e)
{
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    int result = d ? 0 : err_set(e, "decompressing profile: out of memory");
    size_t at = 0;
    while (result == 0 && at < n) {
        size_t used, made;
        enum libdeflate_result r = libdeflate_gzip_decompress_ex(
            d, data + at, n - at, bytes->p + bytes->n, limit - bytes->n, &used, &made);
        if (r == LIBDEFLATE_INSUFFICIENT_SPACE) {
            *short_of_room = true;
            result = -1;
        } else if (r != LIBDEFLATE_SUCCESS) {
            result = err_set(e, "decompressing profile: the gzip data is %s at or after byte %zu",
                             n - at < 18 ? "cut short" : "cut short or corrupt", at);
        } else {
            at += used;
            bytes->n += made;
        }
    }
    libdeflate_free_decompressor(d);
    return result;
}

// Like inflate_gzip, but checks the deadline after each megabyte.
static int inflate_with_deadline(const uint8_t *data, size_t n, size_t limit,
                                 struct compress_bytes *bytes, bool *short_of_room, struct err *e)
{
    z_stream z = {.next_in = (uint8_t *)data};
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return err_set(e, "decompressing profile: out of memory");
    int result = 0;
    while (!result) {
        size_t at = (size_t)(z.next_in - data), room = limit - bytes->n;
        z.avail_in = n - at < UINT32_MAX ? (uInt)(n - at) : UINT32_MAX;
        z.avail_out = room < BETWEEN_CHECKS ? (uInt)room : BETWEEN_CHECKS;
        z.next_out = bytes->p + bytes->n;
        int r = inflate(&z, Z_NO_FLUSH);
        bytes->n = (size_t)(z.next_out - bytes->p);
        bool ended = z.next_in == data + n;
        if (r == Z_STREAM_END && ended)
            break;
        if (r == Z_STREAM_END)
            inflateReset(&z);
        else if ((r == Z_OK || r == Z_BUF_ERROR) && bytes->n == limit)
            result = *short_of_room = true;
        else if (r != Z_OK || ended)
            result = err_set(e,
                             "decompressing profile: the gzip data is cut short or corrupt at "
                             "or after byte %zu",
                             at);
        if (!result && budget_check(bytes->budget) != BUDGET_OK)
            result = explain_budget(bytes->budget, "decompressing profile", e);
    }
    inflateEnd(&z);
    return result ? -1 : 0;
}

// --- frames of zstd in parallel ---

struct zstd_frame {
    const uint8_t *data;
    size_t n, at, size; // at, size: in the output
};

struct zstd_frames {
    struct zstd_frame *list;
    size_t n, cap, size;
    uint8_t *out;
    _Atomic bool failed;
};

// Lists the frames. Returns false if the size of one is unknown, or if the output exceeds limit.
static bool list_zstd_frames(struct zstd_frames *f, const uint8_t *data, size_t n, size_t limit,
                             struct arena *arena)
{
    for (size_t at = 0; at < n; f->n++) {
        size_t used = ZSTD_findFrameCompressedSize(data + at, n - at);
        if (ZSTD_isError(used))
            return false;
        unsigned long long size = ZSTD_getFrameContentSize(data + at, n - at);
        if (size > limit - f->size) // also errors, which are large numbers
            return false;
        f->list = arena_push(arena, f->list, f->n, &f->cap, sizeof *f->list);
        f->list[f->n] = (struct zstd_frame){data + at, used, f->size, (size_t)size};
        f->size += (size_t)size;
        at += used;
    }
    return true;
}

static bool decompress_frame(void *context, struct parallel_worker *worker, size_t index)
{
    (void)worker;
    struct zstd_frames *f = context;
    const struct zstd_frame *frame = &f->list[index];
    size_t n = ZSTD_decompress(f->out + frame->at, frame->size, frame->data, frame->n);
    if (n != frame->size)
        atomic_store(&f->failed, true);
    return n == frame->size;
}

// Returns false if there is only one frame, or if anything is wrong: then decompress_zstd reports
// the error.
static bool decompress_frames(const uint8_t *data, size_t n, size_t limit,
                              struct compress_bytes *bytes)
{
    struct zstd_frames f = {.out = bytes->p};
    struct arena *arena = NULL;
    struct arena_trap trap;
    if (bytes->budget || parallel_threads() == 1 || !(arena = arena_new(0)))
        return false;
    if (ARENA_TRY(arena, trap)) {
        arena_free(arena);
        return false;
    }
    bool several = list_zstd_frames(&f, data, n, limit, arena) && f.n > 1;
    if (several)
        parallel_run(arena, parallel_threads(), f.n, decompress_frame, &f);
    arena_try_end(arena);
    arena_free(arena);
    bytes->n = f.size;
    return several && !atomic_load(&f.failed);
}

static int decompress_zstd(const uint8_t *data, size_t n, size_t limit,
                           struct compress_bytes *bytes, struct err *e)
{
    if (decompress_frames(data, n, limit, bytes))
        return 0;
    ZSTD_DCtx *d = ZSTD_createDCtx();
    if (!d)
        return err_set(e, "decompressing profile: out of memory");
    ZSTD_inBuffer in = {data, n, 0};
    ZSTD_outBuffer out = {bytes->p, limit, 0};
    size_t left = 0;
    int result = 0;
    do {
        size_t before_in = in.pos, before_out = out.pos;
        left = ZSTD_decompressStream(d, &out, &in);
        if (ZSTD_isError(left))
            result = err_set(e, "decompressing profile: zstd: %s at byte %zu",
                             ZSTD_getErrorName(left), in.pos);
        else if (out.pos == limit && left)
            result = explain_inflate_limit(limit, e);
        else if (bytes->budget && budget_check(bytes->budget) != BUDGET_OK)
            result = explain_budget(bytes->budget, "decompressing profile", e);
        else if (in.pos == before_in && out.pos == before_out)
            break;
    } while (result == 0 && (in.pos < in.size || left));
    if (result == 0 && left)
        result = err_set(e, "decompressing profile: the zstd data is cut short");
    bytes->n = out.pos;
    ZSTD_freeDCtx(d);
    return result;
}

int compress_inflate(const uint8_t *data, size_t n, size_t limit, struct compress_bytes *bytes,
                     struct err *e)
{
    *bytes = (struct compress_bytes){.budget = bytes->budget};
    // Deflate compresses at most 1032:1. zstd has no such bound, so it gets the whole limit.
    bool gzip = compress_is_gzip(data, n);
    size_t most = gzip && n < limit / 1040 ? n * 1040 + 64 : limit;
    // A gzip file of one member ends with its uncompressed size. A mapping of just that size avoids
    // a huge page; clearing one takes longer than inflating a small profile.
    size_t likely = gzip && n >= 18 ? stated_size(data, n) + 64 : most;
    for (size_t room = likely < most ? likely : most;; room = most) {
        bool short_of_room = false;
        if (map_output(bytes, room, e))
            return -1;
        bool use_zlib = bytes->budget && room > INFLATE_MOST;
        int result = gzip ? (use_zlib ? inflate_with_deadline : inflate_gzip)(data, n, room, bytes,
                                                                              &short_of_room, e)
                          : decompress_zstd(data, n, room, bytes, e);
        if (!result) {
            unmap_unused_output(bytes);
            return 0;
        }
        compress_bytes_fini(bytes);
        if (!short_of_room || room == most)
            return short_of_room ? explain_inflate_limit(limit, e) : result;
    }
}

int compress_inflate_small(const uint8_t *data, size_t n, struct arena *arena, struct str *inflated)
{
    size_t room = compress_is_gzip(data, n) && n >= 18 ? stated_size(data, n) : 0;
    if (room == 0 || room > COMPRESS_SMALL)
        return -1;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return -1;
    char *to = arena_raw(arena, room, 1);
    arena_try_end(arena);
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    size_t used = 0, made = 0;
    enum libdeflate_result r =
        d ? libdeflate_gzip_decompress_ex(d, data, n, to, room, &used, &made) : LIBDEFLATE_BAD_DATA;
    libdeflate_free_decompressor(d);
    *inflated = (struct str){to, made};
    return r == LIBDEFLATE_SUCCESS && used == n ? 0 : -1;
}

void compress_bytes_fini(struct compress_bytes *bytes)
{
    if (bytes->p)
        munmap(bytes->p, bytes->mapped);
    if (bytes->budget)
        budget_release(&bytes->budget->account, bytes->mapped);
    *bytes = (struct compress_bytes){.budget = bytes->budget};
}

// --- compression ---

enum { LEVEL = 1 }; // 2.5 times as fast as level 6, for about 7 % more bytes

// The output accepts no more bytes; its own error says why.
static int explain_output_error(struct out *out, struct err *e)
{
    return out_finish(out, e) ? -1 : err_set(e, "compressing: out of memory");
}

static int deflate_whole(const void *data, size_t n, struct out *out, struct err *e)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(LEVEL);
    size_t bound = c ? libdeflate_gzip_compress_bound(c, n) : 0;
    int result = -1;
    if (c && out_flush_slow(out, bound)) {
        out->n += libdeflate_gzip_compress(c, data, n, out->p + out->n, bound);
        result = 0;
    } else {
        explain_output_error(out, e);
    }
    libdeflate_free_compressor(c);
    return result;
}

static int deflate_with_deadline(const void *data, size_t n, struct budget *budget, struct out *out,
                                 struct err *e)
{
    enum { PART = 64 << 10 };
    const uint8_t *end = (const uint8_t *)data + n;
    z_stream z = {.next_in = (uint8_t *)data};
    if (deflateInit2(&z, LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return err_set(e, "compressing: out of memory");
    int r = Z_OK, result = 0;
    while (r != Z_STREAM_END && !result) {
        if (!z.avail_in)
            z.avail_in = (size_t)(end - z.next_in) < BETWEEN_CHECKS ? (uInt)(end - z.next_in)
                                                                    : BETWEEN_CHECKS;
        if (!out_flush_slow(out, PART)) {
            result = explain_output_error(out, e);
            break;
        }
        z.next_out = (uint8_t *)out->p + out->n;
        z.avail_out = PART;
        r = deflate(&z, z.next_in + z.avail_in == end ? Z_FINISH : Z_NO_FLUSH);
        out->n += PART - z.avail_out;
        if (budget_check(budget) != BUDGET_OK)
            result = explain_budget(budget, "compressing", e);
    }
    deflateEnd(&z);
    return result;
}

int compress_gzip(const void *data, size_t n, struct budget *budget, struct out *out, struct err *e)
{
    return budget && n > DEFLATE_MOST ? deflate_with_deadline(data, n, budget, out, e)
                                      : deflate_whole(data, n, out, e);
}
