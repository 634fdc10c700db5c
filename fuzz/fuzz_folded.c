// Folded stacks. What is written folded reads as what was written: the second time around
// the text stays the same.
#include "codec/detect.h"
#include "reader.h"

static void write_again(const uint8_t *data, size_t n, struct out *out)
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
    struct out first, second;
    write_again(data, n, &first);
    // Empty output has no stacks; names with blanks at their ends, or a # in front, are
    // not told from the format's own.
    if (!first.error && first.n && !memchr(data, '#', n)) {
        write_again((const uint8_t *)first.p, first.n, &second);
        fuzz_require(second.error == 0);
        out_fini(&second);
    }
    out_fini(&first);
    return fuzz_read(codec_read_folded, data, n);
}
