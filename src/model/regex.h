// Regular expressions as pprof's users write them, matched once per distinct string.
#pragma once

#include "model/profile.h"

struct model_regex;

// Lives in arena. name is what an error calls it ("focus"). NULL with e filled if the
// pattern cannot be compiled.
struct model_regex *model_regex_new(struct arena *arena, const char *name, struct str pattern,
                                    struct err *e);
// Whether the pattern occurs anywhere in text. A pattern that takes too long on some text
// gives up through arena_refuse; arenas with a budget allow fewer steps.
bool model_regex_match(struct model_regex *regex, struct str text);
// The same for an interned string, remembered.
bool model_regex_match_id(struct model_regex *regex, const struct model_strings *strings,
                          uint32_t id);
struct str model_regex_pattern(const struct model_regex *regex);
