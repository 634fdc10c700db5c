// Writing JSON without a tree: pieces go out as they come.
#pragma once

#include "base/out.h"

// A quoted string. Bytes that are not UTF-8 become U+FFFD, one for each.
void json_write_string(struct out *out, struct str s);
// `"key":`, with a comma in front unless it is the first.
void json_write_key(struct out *out, const char *key, bool *is_first);
