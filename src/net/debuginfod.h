// Fetches files by build id from the debuginfod servers in DEBUGINFOD_URLS. Only used on the user's
// request, because it tells others which programs run here.
#pragma once

#include "base/arena.h"
#include "base/str.h"

enum { NET_DEBUGINFOD_LIMIT_MIB = 4096 };

// Returns the cache directory: $XDG_CACHE_HOME/kiln/debug, or $HOME/.cache/kiln/debug. NULL if
// neither variable is set. Its layout is that of /usr/lib/debug, so a colon-separated list of debug
// directories may contain it. The text lives in arena.
const char *net_debuginfod_cache(struct arena *arena);

// Fetches "debuginfo" or "executable" of a build id (in hexadecimal) into the cache, unless it is
// there. Returns -1 with e filled if no server has it or none could be asked.
int net_debuginfod_fetch(const char *cache, const char *what, struct str build_id, struct err *e);
