// Reads names, prints each demangled, or `-`: the driver of tests/symbol/demangle.
//
// usage: names rust | default | templates | full      (then a number: rounds, prints seconds)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "symbol/demangle.h"

static char *shown(const char *mode, const char *name)
{
    if (strcmp(mode, "rust") == 0)
        return demangle_rust(name);
    return demangle(name,
                    strcmp(mode, "full") == 0        ? DEMANGLE_FULL
                    : strcmp(mode, "templates") == 0 ? DEMANGLE_TEMPLATES
                                                     : DEMANGLE_DEFAULT,
                    demangle_cxx_iberty);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "rust";
    int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    char *line = NULL, **names = NULL;
    size_t cap = 0, n = 0, room = 0;
    for (ssize_t got; (got = getline(&line, &cap, stdin)) > 0;) {
        if (line[got - 1] == '\n')
            line[got - 1] = '\0';
        if (rounds) {
            if (n == room)
                names = realloc(names, (room = room * 2 + 1024) * sizeof *names);
            names[n++] = strdup(line);
            continue;
        }
        char *text = shown(mode, line);
        puts(text ? text : "-");
        free(text);
    }
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int r = 0; r < rounds; r++)
        for (size_t i = 0; i < n; i++)
            free(shown(mode, names[i]));
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (rounds)
        printf("%.4f\n", (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
    free(line);
    return 0;
}
