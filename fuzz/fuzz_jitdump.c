// jitdump files. Lines require a name, and texts must not exceed their limit.
#include <stdlib.h>

#include "symbol/jitdump.h"

enum { ADDRESSES = 64 };

struct input {
    const uint8_t *data;
    size_t n;
};

static size_t read_input(void *ctx, uint64_t offset, void *to, size_t n)
{
    const struct input *in = ctx;
    if (offset >= in->n)
        return 0;
    n = n < in->n - offset ? n : in->n - (size_t)offset;
    memcpy(to, in->data + offset, n);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena *arena = arena_new(0);
    struct jit_name names[ADDRESSES];
    struct input in = {data, n};
    for (size_t i = 0; i < ADDRESSES; i++)
        names[i] = (struct jit_name){.address = i * i * 16};
    bool good = jitdump_read(read_input, &in, names, ADDRESSES, arena);
    for (size_t i = 0; i < ADDRESSES; i++) {
        const struct jit_name *name = &names[i];
        if (name->name.n > JIT_NAME_MAX || name->file.n > JIT_NAME_MAX)
            abort();
        if ((!good && name->name.n) || (!name->name.n && (name->line || name->file.n)))
            abort();
    }
    arena_free(arena);
    return 0;
}
