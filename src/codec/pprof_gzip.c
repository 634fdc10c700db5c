// Apart from the writer itself: inside a service there is no libdeflate.
#include "codec/codec.h"

#include <libdeflate.h>
#include <stdlib.h>

int codec_write_pprof_gzip(const struct model_profile *p, struct out *out, struct err *e)
{
    struct out raw;
    out_init_memory(&raw, SIZE_MAX);
    struct libdeflate_compressor *compressor = NULL;
    uint8_t *packed = NULL;
    int result = codec_write_pprof(p, &raw, e) || out_finish(&raw, e) ? -1 : 0;
    if (result == 0) {
        // Two and a half times as fast as level 6 for some 7 % more bytes.
        compressor = libdeflate_alloc_compressor(1);
        size_t bound = compressor ? libdeflate_gzip_compress_bound(compressor, raw.n) : 0;
        packed = compressor ? malloc(bound) : NULL;
        if (packed)
            out_write(out, packed,
                      libdeflate_gzip_compress(compressor, raw.p, raw.n, packed, bound));
        else
            result = err_set(e, "out of memory while compressing a profile");
    }
    free(packed);
    libdeflate_free_compressor(compressor);
    out_fini(&raw);
    return result;
}
