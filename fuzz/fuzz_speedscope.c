// speedscope's JSON.
#include "codec/detect.h"
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    codec_looks_like_speedscope((struct str){(const char *)data, n});
    return fuzz_read(codec_read_speedscope, data, n);
}
