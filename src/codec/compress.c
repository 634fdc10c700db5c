#include "codec/compress.h"

#include "base/arena.h"

#include <libdeflate.h>
#include <string.h>
#include <sys/mman.h>
#include <zstd.h>

bool compress_is_gzip(const uint8_t *data, size_t n)
{
    return n >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

bool compress_is_zstd(const uint8_t *data, size_t n)
{
    return n >= 4 && data[0] == 0x28 && data[1] == 0xb5 && data[2] == 0x2f && data[3] == 0xfd;
}

static int too_large(size_t limit, struct err *e)
{
    return err_set(e,
                   "decompressing profile: it inflates to more than %zu MiB; set KILN_MAX_MIB to "
                   "allow more",
                   limit >> 20);
}

// Pages that are never written take no memory, so asking for the limit is free.
static int reserve(struct compress_bytes *bytes, size_t size, struct err *e)
{
    size_t mapped = (size + 4095) & ~(size_t)4095;
    if (bytes->budget && budget_take(bytes->budget, mapped)) {
        budget_explain(bytes->budget, e);
        return err_prefix(e, "decompressing profile: ");
    }
    bytes->p = arena_map(mapped);
    bytes->mapped = mapped;
    if (bytes->p)
        return 0;
    compress_bytes_fini(bytes);
    return err_set(e, "decompressing profile: out of memory for %zu bytes", size);
}

// Gives back what was reserved in vain.
static void shrink(struct compress_bytes *bytes)
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

static int inflate_zstd(const uint8_t *data, size_t n, size_t limit, struct compress_bytes *bytes,
                        struct err *e)
{
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
            result = too_large(limit, e);
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
    // Deflate reaches 1032:1 at the most; zstd can do better, so it gets the whole limit.
    bool gzip = compress_is_gzip(data, n);
    size_t most = gzip && n < limit / 1040 ? n * 1040 + 64 : limit;
    // A gzip of one member ends with its size. A mapping that is no larger than need be gets no
    // huge page, which takes longer to clear than a small profile to inflate.
    size_t likely = gzip && n >= 18 ? stated_size(data, n) + 64 : most;
    for (size_t room = likely < most ? likely : most;; room = most) {
        bool short_of_room = false;
        if (reserve(bytes, room, e))
            return -1;
        int result = gzip ? inflate_gzip(data, n, room, bytes, &short_of_room, e)
                          : inflate_zstd(data, n, room, bytes, e);
        if (!result) {
            shrink(bytes);
            return 0;
        }
        compress_bytes_fini(bytes);
        if (!short_of_room || room == most)
            return short_of_room ? too_large(limit, e) : result;
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
    char *to = arena_alloc(arena, room);
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
