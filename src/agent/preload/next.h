// The functions that the library stands in for, as the C library has them.
//
// They are looked up when the library is loaded: dlsym takes the loader's lock, which nobody
// gives back in a child of fork if a thread of its parent was loading an object, and several of
// these are called from signal handlers.
#pragma once

#define NEXT_EACH(do)                                                                           \
    do                                                                                          \
    (_exit) do(pthread_create) do(pthread_sigmask) do(sigprocmask) do(sigaction) do(signal) do( \
        execve) do(execvpe) do(fexecve) do(posix_spawn) do(posix_spawnp) do(dlopen)

#define NEXT_NUMBER(name) NEXT_##name,
enum next_name { NEXT_EACH(NEXT_NUMBER) NEXT_COUNT };

void *next_find(enum next_name name);
#define NEXT(name) ((__typeof__(&name))next_find(NEXT_##name))
