// In a separate file because libkiln does not link libdeflate.
#include "codec/codec.h"
#include "codec/compress.h"

int codec_write_pprof_gzip(const struct model_profile *p, struct out *out, struct err *e)
{
    struct budget *budget = arena_budget(p->arena);
    struct out raw;
    out_init_budget(&raw, SIZE_MAX, budget);
    int result = codec_write_pprof(p, &raw, e) || out_finish(&raw, e)
                     ? -1
                     : compress_gzip(raw.p, raw.n, budget, out, e);
    out_fini(&raw);
    return result;
}
