// Label selectors as users write them.
#include "query/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena *arena = arena_new(64 << 20);
    struct query_selector selector;
    struct str text = {(const char *)data, n};
    struct err e;
    if (arena)
        query_selector(text, arena, &selector, &e);
    query_type(&text, &e);
    arena_free(arena);
    return 0;
}
