// The output of objdump.
#include "symbol/disasm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena *arena = arena_new(0);
    struct str text = {(const char *)data, n};
    size_t count;
    struct disasm_inst *insts = disasm_parse(text, arena, &count);
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += insts[i].text.n + insts[i].function.n + insts[i].file.n;
    disasm_kind(text);
    arena_free(arena);
    return bytes > SIZE_MAX / 2;
}
