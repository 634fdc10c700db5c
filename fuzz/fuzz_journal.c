// The journal that a profiled process leaves to kiln run.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "codec/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e;
    struct arena *arena = arena_new(512 << 20);
    // A copy of exact size, so that the sanitizer detects overruns.
    uint8_t *copy = malloc(n + !n);
    memcpy(copy, data, n);
    // Seeds outlive versions.
    const uint32_t version = JOURNAL_VERSION;
    if (n >= sizeof(struct journal_part))
        memcpy(copy + offsetof(struct journal_part, version), &version, sizeof version);
    struct model_profile *p = codec_read_journal(arena, copy, n, n % 2, NULL, &e);
    free(copy);
    if (p && model_check(p, &e))
        abort();
    arena_free(arena);
    return 0;
}
