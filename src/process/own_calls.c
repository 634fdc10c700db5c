// System calls and other functions that libkiln calls under libc's names. The linker redirects
// these names to here (--wrap, see agent/meson.build): a program may have functions of its own that
// are called read, close or poll, since C does not reserve the names, and then the loader would
// give us those.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "process/call.h"

static long own_call(long number, long a, long b, long c, long d, long e, long f)
{
    long result = process_call(number, a, b, c, d, e, f);
    if (result >= 0 || result < -4095)
        return result;
    errno = (int)-result;
    return -1;
}

// libc's has variable arguments, which are passed in the same way.
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    return own_call(number, a, b, c, d, e, f);
}

#define WRAP0(type, name, number)                        \
    type __wrap_##name(void);                            \
    type __wrap_##name(void)                             \
    {                                                    \
        return (type)own_call(number, 0, 0, 0, 0, 0, 0); \
    }
#define WRAP1(type, name, number, A)                           \
    type __wrap_##name(A a);                                   \
    type __wrap_##name(A a)                                    \
    {                                                          \
        return (type)own_call(number, (long)a, 0, 0, 0, 0, 0); \
    }
#define WRAP2(type, name, number, A, B)                              \
    type __wrap_##name(A a, B b);                                    \
    type __wrap_##name(A a, B b)                                     \
    {                                                                \
        return (type)own_call(number, (long)a, (long)b, 0, 0, 0, 0); \
    }
#define WRAP3(type, name, number, A, B, C)                                 \
    type __wrap_##name(A a, B b, C c);                                     \
    type __wrap_##name(A a, B b, C c)                                      \
    {                                                                      \
        return (type)own_call(number, (long)a, (long)b, (long)c, 0, 0, 0); \
    }
#define WRAP5(type, name, number, A, B, C, D, E)                                       \
    type __wrap_##name(A a, B b, C c, D d, E e);                                       \
    type __wrap_##name(A a, B b, C c, D d, E e)                                        \
    {                                                                                  \
        return (type)own_call(number, (long)a, (long)b, (long)c, (long)d, (long)e, 0); \
    }

WRAP0(pid_t, getpid, SYS_getpid)
WRAP0(uid_t, geteuid, SYS_geteuid)
WRAP0(gid_t, getegid, SYS_getegid)
WRAP1(int, close, SYS_close, int)
WRAP2(int, listen, SYS_listen, int, int)
WRAP2(int, munmap, SYS_munmap, void *, size_t)
WRAP2(int, munlock, SYS_munlock, const void *, size_t)
WRAP2(int, nanosleep, SYS_nanosleep, const struct timespec *, struct timespec *)
WRAP2(int, shutdown, SYS_shutdown, int, int)
WRAP3(int, bind, SYS_bind, int, const struct sockaddr *, socklen_t)
WRAP3(int, connect, SYS_connect, int, const struct sockaddr *, socklen_t)
WRAP3(int, getsockname, SYS_getsockname, int, struct sockaddr *, socklen_t *)
WRAP3(int, ioctl, SYS_ioctl, int, unsigned long, long)
WRAP3(int, madvise, SYS_madvise, void *, size_t, int)
WRAP3(int, mprotect, SYS_mprotect, void *, size_t, int)
WRAP3(ssize_t, getrandom, SYS_getrandom, void *, size_t, unsigned)
WRAP3(ssize_t, read, SYS_read, int, void *, size_t)
WRAP3(int, socket, SYS_socket, int, int, int)
WRAP3(ssize_t, write, SYS_write, int, const void *, size_t)
WRAP5(int, getsockopt, SYS_getsockopt, int, int, int, void *, socklen_t *)
WRAP5(int, setsockopt, SYS_setsockopt, int, int, int, const void *, socklen_t)
WRAP5(void *, mremap, SYS_mremap, void *, size_t, size_t, int, void *)

int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    return (int)own_call(SYS_faccessat, AT_FDCWD, (long)path, mode, 0, 0, 0);
}

int __wrap_poll(struct pollfd *descriptors, nfds_t n, int ms);
int __wrap_poll(struct pollfd *descriptors, nfds_t n, int ms)
{
    struct timespec timeout = {ms / 1000, ms % 1000 * 1000000L};
    return (int)own_call(SYS_ppoll, (long)descriptors, (long)n, ms < 0 ? 0 : (long)&timeout, 0, 0,
                         0);
}

ssize_t __wrap_readlink(const char *path, char *to, size_t size);
ssize_t __wrap_readlink(const char *path, char *to, size_t size)
{
    return own_call(SYS_readlinkat, AT_FDCWD, (long)path, (long)to, (long)size, 0, 0);
}

ssize_t __wrap_recv(int fd, void *to, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t size, int flags)
{
    return own_call(SYS_recvfrom, fd, (long)to, (long)size, flags, 0, 0);
}

ssize_t __wrap_send(int fd, const void *p, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *p, size_t n, int flags)
{
    return own_call(SYS_sendto, fd, (long)p, (long)n, flags, 0, 0);
}

int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
    return (int)own_call(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0, 0, 0);
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n_to,
                                const struct iovec *from, unsigned long n_from,
                                unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n_to,
                                const struct iovec *from, unsigned long n_from, unsigned long flags)
{
    return own_call(SYS_process_vm_readv, pid, (long)to, (long)n_to, (long)from, (long)n_from,
                    (long)flags);
}

// libc's other name.
unsigned long __getauxval(unsigned long type);

unsigned long __wrap_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type)
{
    return __getauxval(type);
}

int __wrap_getpagesize(void);
int __wrap_getpagesize(void)
{
    return (int)__getauxval(AT_PAGESZ);
}

size_t __wrap_strnlen(const char *text, size_t most);
size_t __wrap_strnlen(const char *text, size_t most)
{
    const char *end = memchr(text, 0, most);
    return end ? (size_t)(end - text) : most;
}

char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}
