// pprof's users write Go's regular expressions: a smaller language than PCRE's.
#pragma once

#include "base/str.h"

// NULL if Go would accept the pattern, else what is wrong; *where is the part it is about.
const char *regex_syntax_error(struct str pattern, struct str *where);
