// The older pprof formats: CPU, heap, count, thread, contention and Java profiles, with their
// memory maps.
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    return fuzz_read(codec_read_legacy, data, n);
}
