// Regular expressions in pprof's syntax (Go's). Each is matched once per distinct string.
#pragma once

#include "model/profile.h"

struct model_regex;

// Compiles a pattern. The result lives in arena. name identifies the option in errors ("focus").
// Returns NULL with e (may be NULL) filled if the pattern is invalid.
struct model_regex *model_regex_new(struct arena *arena, const char *name, struct str pattern,
                                    struct err *e);
// Whether the pattern matches anywhere in text. If it takes too long, fails through arena_refuse.
// Arenas with a budget allow fewer steps.
bool model_regex_match(struct model_regex *regex, struct str text);
// Like model_regex_match for an interned string. Caches the result.
bool model_regex_match_id(struct model_regex *regex, const struct model_strings *strings,
                          uint32_t id);
struct str model_regex_pattern(const struct model_regex *regex);
