// Files by build id from debuginfod servers, those that DEBUGINFOD_URLS names. Nothing here is
// asked for unless the user did: it tells others which programs run here.
#pragma once

#include "base/arena.h"
#include "base/str.h"

enum { NET_DEBUGINFOD_LIMIT_MIB = 4096 };

// The directory of files fetched before, laid out as /usr/lib/debug is: a colon-separated list
// of debug directories may contain it. $XDG_CACHE_HOME/kiln/debug, or below $HOME/.cache; NULL
// if neither is known.
const char *net_debuginfod_cache(struct arena *arena);

// Brings "debuginfo" or "executable" of the binary with this build id (in hexadecimal) into the
// cache, unless it is there. 0, or -1 with e filled: no server has it, or none could be asked.
int net_debuginfod_fetch(const char *cache, const char *what, struct str build_id, struct err *e);
