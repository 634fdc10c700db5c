// Label selectors as users write them.
#include "query/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena *arena = arena_new(64 << 20);
    struct query_selector selector;
    struct err e;
    if (arena)
        query_selector((struct str){(const char *)data, n}, arena, &selector, &e);
    query_type((struct str){(const char *)data, n}, &e);
    arena_free(arena);
    return 0;
}
