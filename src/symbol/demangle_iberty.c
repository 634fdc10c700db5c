// Demangles C++ names with libiberty, in the command and the server.
#include <stdlib.h>
#include <libiberty/demangle.h>

#include "symbol/demangle.h"

char *demangle_cxx_iberty(const char *name, bool parameters)
{
    int options = DMGL_AUTO | DMGL_ANSI | (parameters ? DMGL_PARAMS : 0);
    return cplus_demangle_v3(name, options);
}
