// The output of perf script.
#include "codec/detect.h"
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    codec_looks_like_perf_script((struct str){(const char *)data, n});
    return fuzz_read(codec_read_perf_script, data, n);
}
