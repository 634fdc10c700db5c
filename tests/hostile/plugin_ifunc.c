// Allocates while the loader still relocates libraries: in the resolver of an IFUNC.
#include <stdlib.h>
#include <string.h>

static char *volatile kept;

static int answer(void)
{
    return kept && kept[0] == 7 && kept[299] == 0;
}

static int (*resolve_answer(void))(void)
{
    char *p = malloc(100), *q = calloc(3, 30);
    if (p && q) {
        memset(p, 7, 100);
        p = realloc(p, 200);
        free(q);
    }
    kept = calloc(1, 300);
    if (p && kept)
        kept[0] = p[99];
    free(p);
    return answer;
}

__attribute__((visibility("hidden"))) int resolved(void) __attribute__((ifunc("resolve_answer")));

int plugin_answer(void);
int plugin_answer(void)
{
    int result = resolved();
    kept = realloc(kept, 100000);
    free(kept);
    return result;
}
