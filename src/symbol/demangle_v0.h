#pragma once

#include "symbol/demangle_text.h"

// The v0 name at sym (without its _R): whether it is one, and how long it is.
bool demangle_v0_check(const char *sym, size_t n, size_t *used);
void demangle_v0_print(const char *sym, size_t n, struct text *out);
