// The libc functions behind our interposers, for libkiln.so only.
//
// They are looked up once, when the library is loaded, because dlsym takes the loader's lock: a
// thread may hold it for as long as a plugin's constructor runs, and a child of fork may inherit it
// locked. Every interposer follows one pattern: no lock, no allocation, no loader call, a small
// stack frame, and a plain pass-through when nothing is profiled or the caller is not in our
// process.
#pragma once

// clang-format off
#define LIBC_EACH(do)                                                                          \
    do(pthread_create) do(thrd_create) do(pthread_mutex_lock) do(pthread_sigmask)              \
    do(sigprocmask) do(sigpending) do(sigwait) do(sigwaitinfo) do(sigtimedwait) do(signalfd)   \
    do(sigsuspend) do(pselect) do(ppoll) do(__ppoll_chk) do(epoll_pwait) do(epoll_pwait2)      \
    do(sigaction)                                                                              \
    do(signal) do(__sysv_signal) do(sigset) do(sigignore) do(siginterrupt) do(sigaltstack)     \
    do(mlockall) do(munlockall) do(execvpe) do(fexecve) do(posix_spawn) do(posix_spawnp) do(popen) do(system) do(dlopen)
// clang-format on

#define LIBC_NUMBER(name) LIBC_##name,
enum libc_name { LIBC_EACH(LIBC_NUMBER) LIBC_COUNT };

void *libc_function(enum libc_name name);
#define LIBC(name) ((__typeof__(&name))libc_function(LIBC_##name))
