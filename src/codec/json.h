// Writes JSON piece by piece, without building a tree.
#pragma once

#include "base/out.h"
#include "model/profile.h"

// Writes a quoted string. Each byte that is not valid UTF-8 becomes U+FFFD.
void json_write_string(struct out *out, struct str s);
// Writes `"key":`, with a comma before it unless *is_first. Clears *is_first.
void json_write_key(struct out *out, const char *key, bool *is_first);
// Writes sample types: `[["cpu","nanoseconds"],...]`.
void json_write_types(struct out *out, const struct model_profile *p);
// Returns the length of the UTF-8 character at the start of n > 0 bytes, or 0 if it is invalid: a
// surrogate, an overlong form or above U+10FFFF.
size_t json_utf8_length(const unsigned char *p, size_t n);
