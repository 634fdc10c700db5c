// The pieces of work in C, by timer only: where instructions cannot be single-stepped in
// process. usage: main_timed [CONTEXTS]
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    long contexts = argc > 1 ? strtol(argv[1], NULL, 10) : 100;
    const char *only = getenv("HARNESS_ONLY");
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (const struct work *w = work_c_list; w->name; w++)
        if (!only || strstr(w->name, only))
            harness_run_timed(w->name, w->run, w->oracle, contexts);
    return harness_finish() != 0;
}
