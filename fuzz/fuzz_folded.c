// Folded stacks. Written text must read back: from the second write on, it stays the same. (The
// first one may merge stacks that became equal.)
#include "codec/detect.h"
#include "reader.h"

static void fold_again(const uint8_t *data, size_t n, struct out *out)
{
    struct arena *arena = arena_new((size_t)256 << 20);
    struct err e;
    struct model_profile *p = codec_read_folded(arena, data, n, &e);
    out_init_memory(out, 16 << 20);
    if (p)
        codec_write_folded(p, 0, out);
    else
        out->error = -1;
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    codec_looks_like_folded((struct str){(const char *)data, n});
    struct out first, second, third;
    fold_again(data, n, &first);
    // A leading # would turn a stack into a comment.
    if (!first.error && !memchr(data, '#', n)) {
        fold_again((const uint8_t *)first.p, first.n, &second);
        fuzz_require(second.error == 0);
        fold_again((const uint8_t *)second.p, second.n, &third);
        fuzz_require(third.error == 0 && third.n == second.n);
        fuzz_require(second.n == 0 || memcmp(second.p, third.p, second.n) == 0);
        out_fini(&third);
        out_fini(&second);
    }
    out_fini(&first);
    return fuzz_read(codec_read_folded, data, n);
}
