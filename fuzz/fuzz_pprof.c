// Any bytes through the main entry point: decompression, format detection and every decoder. The
// profile is written as pprof, read and written again; the second and third outputs must be
// identical. (The first may differ: pprof's reader drops labels with neither text nor number, and
// writing can create such labels.)
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/out.h"
#include "codec/codec.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena *arena = arena_new(MEMORY);
    struct codec_limits limits = {.inflated = INFLATED};
    struct err e = {.message = ""};
    struct model_profile *p = codec_read(arena, data, n, &limits, NULL, &e);
    if (!p && e.message[0] == '\0')
        abort(); // failed without a message
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
