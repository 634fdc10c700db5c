// Single characters of Go's patterns.
#pragma once

#include "base/str.h"

// The character at *at of valid UTF-8; *at moves behind it. At the end: 0xfffd, and *at stays.
uint32_t regex_next_char(struct str s, size_t *at);
// The character that the escape at *at (its backslash) stands for: \n, \x41, \x{1f600}, \101, \.
// and so on; *at moves behind it. false: there is no such escape, and *at stands behind the part
// that shows it.
bool regex_escape(struct str s, size_t *at, uint32_t *c);
// The same for a character of a class, escaped or not.
bool regex_class_char(struct str s, size_t *at, uint32_t *c);
// Where the name of a [:class:] at at ends, behind its last bracket; SIZE_MAX: it is no name.
size_t regex_class_name(struct str s, size_t at);
// Where the \p{Name} or \pN at at (its backslash) ends; SIZE_MAX: nowhere.
size_t regex_property(struct str s, size_t at, struct str *name);

bool regex_is_utf8(struct str s);
// s with every byte that is not UTF-8 as U+FFFD, which is what Go takes it for; to has room for
// three times s. Its length.
size_t regex_as_utf8(struct str s, char *to);
