// Checks patterns against Go's syntax, which pprof users expect. It is a smaller language than
// PCRE2's.
#pragma once

#include "base/str.h"

// Returns NULL if Go would accept the pattern, else the error. Sets *where to the part with the
// error.
const char *regex_syntax_error(struct str pattern, struct str *where);
