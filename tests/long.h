// KILN_LONG_TESTS=1, as `make test-long` sets it, asks for the long form of every test. The short
// form looks for the same kinds of defects with fewer repetitions.
#pragma once

#include <stdbool.h>
#include <stdlib.h>

static inline bool tests_are_long(void)
{
    const char *value = getenv("KILN_LONG_TESTS");
    return value && *value;
}

// How often to repeat. Sanitizers look at what code does, not at how often it is right: there few
// repetitions show what many do.
static inline int repetitions(int in_long, int in_short, int sanitized)
{
#ifdef SANITIZED
    in_short = sanitized;
#endif
    return tests_are_long() ? in_long : in_short;
}
