// Names as people write them. Rust (legacy and v0) is demangled here; C++ by a function that
// the caller supplies: libiberty's in the command and the server, the process's own in a
// service.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// pprof's demangle= option.
enum demangle_mode {
    DEMANGLE_DEFAULT,   // no parameters, no template arguments, no return type
    DEMANGLE_TEMPLATES, // no parameters, no return type
    DEMANGLE_FULL,
    DEMANGLE_NONE,
};

// malloced text, or NULL if the name is not a mangled one.
typedef char *demangle_cxx_fn(const char *name, bool parameters);

// libiberty; only where the library `symbol_cxx` is linked.
char *demangle_cxx_iberty(const char *name, bool parameters);
// The __cxa_demangle that this process has, if it has one. It always gives parameters.
char *demangle_cxx_own(const char *name, bool parameters);

// The name to show: malloced, or NULL if it is the same (not mangled, mode none, no memory).
char *demangle(const char *name, enum demangle_mode mode, demangle_cxx_fn *cxx);

// Rust alone, equal to the crate rustc-demangle's alternate form (no hashes): malloced, or NULL
// if it is no Rust name.
char *demangle_rust(const char *name);

// A C++ name that is demangled already, without its parameters and template arguments as the
// mode asks: malloced, or NULL if nothing changes.
char *demangle_simplify(const char *name, bool parameters, bool templates);
