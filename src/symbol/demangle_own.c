// Demangles C++ names with the process's own C++ runtime, so that libkiln adds no library to a
// service.
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/demangle.h"

// Removes the return type that instantiated templates have. It ends at the last blank outside
// brackets.
static void drop_return_type(char *name)
{
    size_t depth = 0, cut = 0;
    if (strstr(name, "operator ") || strstr(name, " for ") || strstr(name, " to "))
        return;
    for (size_t i = 0; name[i]; i++) {
        if (strncmp(name + i, "operator", 8) == 0)
            break;
        if (strchr("<({[", name[i]))
            depth++;
        else if (strchr(">)}]", name[i]) && depth)
            depth--;
        else if (name[i] == ' ' && depth == 0)
            cut = i + 1;
        // Stop at the parameters: the return type precedes them.
        if (name[i] == '(' && depth == 1 && strncmp(name + i, "(anonymous", 10) != 0)
            break;
    }
    memmove(name, name + cut, strlen(name + cut) + 1);
}

char *demangle_cxx_own(const char *name, bool parameters)
{
    // Not cached if missing: a library that contains it may be loaded later.
    static _Atomic(void *) found;
    char *(*own)(const char *, char *, size_t *, int *);
    void *at = atomic_load(&found);
    if (!at) {
        at = dlsym(RTLD_DEFAULT, "__cxa_demangle");
        atomic_store(&found, at);
    }
    *(void **)&own = at;
    int status = 0;
    char *text = own ? own(name, NULL, NULL, &status) : NULL;
    if (text && !parameters)
        drop_return_type(text);
    return text;
}
