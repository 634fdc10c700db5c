// A program may have functions of its own by names that C does not reserve: read, close, poll and
// so on. libc does not call them, and no library that was loaded beside it may.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef KILN_LINKED
#include <kiln/kiln.h>
#endif

static volatile sig_atomic_t calls;
static const char *volatile last;

#define OWN(name)                         \
    long own_##name(void) __asm__(#name); \
    long own_##name(void)                 \
    {                                     \
        last = #name;                     \
        calls++;                          \
        return -1;                        \
    }

OWN(access)
OWN(bind)
OWN(close)
OWN(connect)
OWN(fcntl)
OWN(fstat)
OWN(getauxval)
OWN(getcwd)
OWN(getpagesize)
OWN(getpid)
OWN(getrandom)
OWN(index)
OWN(ioctl)
OWN(listen)
OWN(lseek)
OWN(madvise)
OWN(mprotect)
OWN(munmap)
OWN(nanosleep)
OWN(open)
OWN(poll)
OWN(pread)
OWN(process_vm_readv)
OWN(read)
OWN(readlink)
OWN(recv)
OWN(send)
OWN(socket)
OWN(stat)
OWN(strdup)
OWN(strnlen)
OWN(syscall)
OWN(unlink)
OWN(write)

// The name of a function of zlib, which calls it by that name to write gzip.
uint32_t crc32(const unsigned char *p, size_t n)
{
    abort();
}

static void *work(void *context)
{
    for (volatile long i = 0; i < 30000000; i++)
        ;
    for (int i = 0; i < 1000; i++) {
        void *volatile object = malloc(9000);
        free(object);
    }
    return context;
}

int main(void)
{
#ifdef KILN_LINKED
    struct kiln_error error;
    struct kiln_options options = {.size = sizeof options, .frequency = 1000};
    int window = -1;
    if (kiln_start(&options, &error) || (window = kiln_window_begin(&error)) < 0)
        fprintf(stderr, "kiln: %s\n", error.message);
#endif
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL))
            puts("no thread");
    }
    for (volatile long i = 0; i < 300000000; i++)
        ;
#ifdef KILN_LINKED
    if (kiln_window_write(window, creat("/dev/null", 0600), &error))
        fprintf(stderr, "kiln: %s\n", error.message);
#endif
    printf("nobody called the program's functions: %s\n", calls ? last : "yes");
    return 0;
}
