// Source files that a profile names, found on this machine as pprof finds them.
#pragma once

#include "base/arena.h"
#include "base/str.h"

struct source_files;

// search_path: directories, separated by colons, in which (and above which) a relative name is
// looked for; empty: the current one. trim_path: prefixes that names lose first; without any,
// everything up to the base name of a search directory goes. Everything lives in arena.
struct source_files *source_files_new(struct arena *arena, struct str search_path,
                                      struct str trim_path);
// Line number n, from 1, without its end. false: the file has no such line or cannot be had.
bool source_files_line(struct source_files *files, struct str path, int64_t n, struct str *line);
// Why the file cannot be had; NULL if it can, or if no line was asked for yet.
const char *source_files_error(struct source_files *files, struct str path);
