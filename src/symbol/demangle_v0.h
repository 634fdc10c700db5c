#pragma once

#include "symbol/demangle_text.h"

// Checks the v0 name at sym (without its _R). Returns whether it is valid. *used is its length.
bool demangle_v0_check(const char *sym, size_t n, size_t *used);
// Prints a name that demangle_v0_check accepted.
void demangle_v0_print(const char *sym, size_t n, struct text *out);
