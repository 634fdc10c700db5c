#pragma once

#include "base/out.h"
#include "base/str.h"

// Writes a pattern that regex_syntax_error accepted in PCRE2's syntax. Constructs that the two
// languages write or interpret differently are translated.
void regex_translate(struct str pattern, struct out *out);
