// The stack formats of Pyroscope's older agents. The first byte selects the format.
#include "codec/stacks.h"
#include "reader.h"

static enum stacks_format format;

static struct model_profile *read_stacks(struct arena *arena, const uint8_t *data, size_t n,
                                         struct err *e)
{
    return stacks_read(arena, format, data, n, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n)
        return 0;
    format = data[0] & 3;
    return fuzz_read(read_stacks, data + 1, n - 1);
}
