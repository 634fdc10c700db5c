// Symbol names. Any input must yield bounded text, in every mode.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *name = malloc(n + 1);
    memcpy(name, data, n);
    name[n] = '\0';
    char *rust = demangle_rust(name);
    if (rust && strlen(rust) > 1000000 + 64 + n)
        abort();
    free(rust);
    for (int mode = DEMANGLE_DEFAULT; mode <= DEMANGLE_NONE; mode++)
        free(demangle(name, (enum demangle_mode)mode, NULL));
    free(demangle_simplify(name, false, false));
    free(demangle_simplify(name, false, true));
    free(demangle_simplify(name, true, false));
    free(name);
    return 0;
}
