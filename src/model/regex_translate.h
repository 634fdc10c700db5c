#pragma once

#include "base/out.h"
#include "base/str.h"

// A pattern that regex_syntax_error found right, in the words of PCRE2: what the two languages
// spell or understand differently is spelled out.
void regex_translate(struct str pattern, struct out *out);
