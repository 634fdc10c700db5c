// Finds source files on this machine in the same way as pprof.
#pragma once

#include "base/arena.h"
#include "base/str.h"

struct source_files;

// search_path: colon-separated directories in which (and above which) relative names are searched;
// empty: the current directory. trim_path: prefixes that are removed from names first; without it,
// everything up to the base name of a search directory is removed. Everything is allocated in
// arena.
struct source_files *source_files_new(struct arena *arena, struct str search_path,
                                      struct str trim_path);
// Returns line n, counted from 1, without its end. false: there is no such line, or the file is not
// readable.
bool source_files_line(struct source_files *files, struct str path, int64_t n, struct str *line);
// The reason why the file is not readable; NULL if it is, or if no line was read yet.
const char *source_files_error(struct source_files *files, struct str path);
