// Demangles names. Rust (legacy and v0) is implemented here. For C++ the caller supplies a
// function: libiberty's in the command and the server, the process's own in a service. All results
// are malloced. Thread-safe.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Values of pprof's demangle= option.
enum demangle_mode {
    DEMANGLE_DEFAULT,   // no parameters, no template arguments, no return type
    DEMANGLE_TEMPLATES, // no parameters, no return type
    DEMANGLE_FULL,
    DEMANGLE_NONE,
};

// Returns malloced text, or NULL if the name is not mangled.
typedef char *demangle_cxx_fn(const char *name, bool parameters);

// libiberty's demangler. Only defined where the library `symbol_cxx` is linked.
char *demangle_cxx_iberty(const char *name, bool parameters);
// The __cxa_demangle of this process, if it has one. Its result always includes parameters, also
// without the flag.
char *demangle_cxx_own(const char *name, bool parameters);

// Returns the malloced name to show. Returns NULL if it equals name: not mangled, DEMANGLE_NONE, or
// out of memory. cxx may be NULL.
char *demangle(const char *name, enum demangle_mode mode, demangle_cxx_fn *cxx);

// Demangles Rust names only. The text equals the alternate form of the crate rustc-demangle (no
// hashes). Returns malloced text, or NULL if this is not a Rust name.
char *demangle_rust(const char *name);

// Removes parameters and template arguments from a demangled C++ name, unless the flags keep them.
// Returns malloced text, or NULL if nothing changes.
char *demangle_simplify(const char *name, bool parameters, bool templates);
