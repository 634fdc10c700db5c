// Parses single characters of Go's patterns.
#pragma once

#include "base/str.h"

// Returns the character at *at of valid UTF-8 and moves *at past it. At the end returns 0xfffd and
// leaves *at.
uint32_t regex_next_char(struct str s, size_t *at);
// Parses the escape at *at (its backslash): \n, \x41, \x{1f600}, \101, \. and so on. Sets *c to the
// character and moves *at past it. Returns false if the escape is invalid; *at is then after the
// invalid part.
bool regex_escape(struct str s, size_t *at, uint32_t *c);
// Like regex_escape, for a character of a class, escaped or not.
bool regex_class_char(struct str s, size_t *at, uint32_t *c);
// Returns the end of the [:class:] at at, after its last bracket, or SIZE_MAX if it is not one.
size_t regex_class_name(struct str s, size_t at);
// Returns the end of the \p{Name} or \pN at at (its backslash), or SIZE_MAX. Sets *name.
size_t regex_property(struct str s, size_t at, struct str *name);

// Whether s is valid UTF-8.
bool regex_is_utf8(struct str s);
// Copies s to to, with each invalid byte as U+FFFD, as Go decodes it. to must have room for three
// times the length of s. Returns the length.
size_t regex_as_utf8(struct str s, char *to);
