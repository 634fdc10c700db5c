// A heap sampling image of two blocks. Input format: the start of the head, 64 numbers of modules,
// 64 numbers of stacks, and the start of the records.
#include <stdlib.h>
#include <string.h>

#include "codec/heap_read.h"

enum { COUNTS = 96, NUMBERS = 64 };

static size_t copy_input(void *to, size_t size, const uint8_t **data, size_t *n)
{
    size_t some = size < *n ? size : *n;
    memcpy(to, *data, some);
    *data += some;
    *n -= some;
    return some;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct heap_head *head;
    static char *records;
    static size_t used;
    struct err e;
    if (!head) {
        head = calloc(1, HEAP_BLOCK);
        records = calloc(1, HEAP_BLOCK);
    }
    memset(head, 0, sizeof(struct heap_head) - sizeof head->index);
    memset((void *)head->index, 0, NUMBERS * sizeof *head->index);
    memset(records, 0, used + 8);
    copy_input(head, COUNTS, &data, &n);
    head->magic = HEAP_MAGIC;
    copy_input((void *)head->modules, NUMBERS * sizeof *head->modules, &data, &n);
    copy_input((void *)head->index, NUMBERS * sizeof *head->index, &data, &n);
    used = copy_input(records + 8, HEAP_BLOCK - 8, &data, &n);
    const void *blocks[] = {head, records};
    struct arena *arena = arena_new(512 << 20);
    struct model_profile *p = codec_read_heap(arena, blocks, 2, NULL, NULL, &e);
    if (p && model_check(p, &e))
        abort();
    arena_free(arena);
    return 0;
}
