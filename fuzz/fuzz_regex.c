// A pattern, a newline, and a text to match.
#include "model/regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena *arena = arena_new(64 << 20);
    const uint8_t *end = n ? memchr(data, '\n', n) : NULL;
    struct str pattern = {(const char *)data, end ? (size_t)(end - data) : n};
    struct str text = {(const char *)data + pattern.n, n - pattern.n};
    struct err e;
    struct arena_trap trap;
    if (n < 4096 && !ARENA_TRY(arena, trap)) {
        struct model_regex *regex = model_regex_new(arena, "fuzz", pattern, &e);
        if (regex)
            model_regex_match(regex, text);
        arena_try_end(arena);
    }
    arena_free(arena);
    return 0;
}
