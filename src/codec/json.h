// Writing JSON without a tree: pieces go out as they come.
#pragma once

#include "base/out.h"
#include "model/profile.h"

// A quoted string. Bytes that are not UTF-8 become U+FFFD, one for each.
void json_write_string(struct out *out, struct str s);
// `"key":`, with a comma in front unless it is the first.
void json_write_key(struct out *out, const char *key, bool *is_first);
// Types of samples: `[["cpu","nanoseconds"],...]`.
void json_write_types(struct out *out, const struct model_profile *p);
// Length of the UTF-8 character at the start of n > 0 bytes, 0 if there is none: no surrogates,
// no more bytes than needed, nothing above U+10FFFF.
size_t json_utf8_length(const unsigned char *p, size_t n);
