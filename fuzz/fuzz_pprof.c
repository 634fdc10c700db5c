// Any bytes through the front door: decompression, format detection and every decoder. What
// was read is written as pprof, read and written again until it has settled: the second and
// the third time must give the same bytes. (The first may differ: pprof's reader drops labels
// that have neither text nor number, and some become so only when they are written.)
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/out.h"
#include "codec/codec.h"

enum { MEMORY = 512 << 20, INFLATED = 8 << 20, WRITTEN = 64 << 20 };

// The profile as pprof, in memory; false if it is larger than the limit.
static bool write_out(const struct model_profile *p, struct out *out)
{
    struct err e;
    out_init_memory(out, WRITTEN);
    return codec_write_pprof(p, out, &e) == 0 && out_finish(out, &e) == 0;
}

// Reads what was written and writes it once more.
static void rewrite(const struct out *from, struct out *to)
{
    struct err e;
    struct arena *arena = arena_new(MEMORY);
    struct model_profile *p = codec_read_pprof(arena, (const uint8_t *)from->p, from->n, &e);
    if (!p || !write_out(p, to))
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
        abort(); // failed without a reason
    if (p) {
        struct out first, second, third;
        if (write_out(p, &first)) {
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
