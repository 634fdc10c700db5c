// Any bytes through the main entry point: decompression, format detection and every decoder. The
// profile is written as pprof, read and written again; the second and third outputs must be
// identical. (The first may differ: pprof's reader drops labels with neither text nor number, and
// writing can create such labels.) The reader for large profiles must agree with the other one, on
// one thread and on three, with samples that stay encoded and without.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/out.h"
#include "codec/codec.h"
#include "model/stream.h"

enum { MEMORY = 512 << 20, INFLATED = 8 << 20, WRITTEN = 64 << 20 };

// Encodes the profile in memory. Returns false if it exceeds the limit.
static bool encode_profile(const struct model_profile *p, struct out *out)
{
    struct err e;
    out_init_memory(out, WRITTEN);
    return codec_write_pprof(p, out, &e) == 0 && out_finish(out, &e) == 0;
}

// Reads an encoded profile and writes it again.
static void rewrite(const struct out *from, struct out *to)
{
    struct err e;
    struct arena *arena = arena_new(MEMORY);
    struct model_profile *p = codec_read_pprof(arena, (const uint8_t *)from->p, from->n, &e);
    if (!p || !encode_profile(p, to))
        abort();
    arena_free(arena);
}

// Reads the data in small windows. The result must be p, or the error e.
static void read_in_windows(const uint8_t *data, size_t n, const struct model_profile *p,
                            const struct err *e, struct codec_parallel parallel)
{
    struct arena *arena = arena_new((size_t)2 * MEMORY);
    struct codec_limits limits = {.inflated = INFLATED};
    struct err other = {.message = ""};
    parallel_allow(parallel.threads);
    const struct model_profile *read =
        codec_read_parallel(arena, data, n, &limits, &parallel, NULL, &other);
    if ((read == NULL) != (p == NULL) || (!p && strcmp(e->message, other.message) != 0))
        abort();
    struct out ours, theirs;
    if (p && encode_profile(p, &theirs)) {
        struct arena_trap trap;
        if (ARENA_TRY(arena, trap))
            abort();
        read = model_decode_samples(read, arena);
        arena_try_end(arena);
        if (!encode_profile(read, &ours) || ours.n != theirs.n ||
            memcmp(ours.p, theirs.p, ours.n) != 0)
            abort();
        out_fini(&ours);
    }
    if (p)
        out_fini(&theirs);
    parallel_allow(1);
    arena_free(arena);
}

// Whether the reader for large profiles may need much more memory than the limit.
static bool is_memory_error(const struct err *e)
{
    return strstr(e->message, "memory") != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena *arena = arena_new(MEMORY);
    struct codec_limits limits = {.inflated = INFLATED};
    struct err e = {.message = ""};
    struct model_profile *p = codec_read(arena, data, n, &limits, NULL, &e);
    if (!p && e.message[0] == '\0')
        abort(); // failed without a message
    bool is_packed = n >= 2 && (data[0] == 0x1f || data[0] == 0x28);
    if (!is_packed && !is_memory_error(&e)) {
        read_in_windows(data, n, p, &e, (struct codec_parallel){.threads = 3});
        read_in_windows(data, n, p, &e,
                        (struct codec_parallel){.threads = 1, .keeps_encoded = true});
    }
    if (p) {
        struct out first, second, third;
        if (encode_profile(p, &first)) {
            rewrite(&first, &second);
            rewrite(&second, &third);
            if (second.n != third.n || memcmp(second.p, third.p, second.n) != 0)
                abort();
            out_fini(&third);
            out_fini(&second);
        }
        out_fini(&first);
    }
    arena_free(arena);
    return 0;
}
