#include "symbol/mapped_file.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAPPED_MAX = 4096 }; // further files are not guarded

static struct {
    _Atomic uintptr_t start; // 0: free; 1: being filled in
    _Atomic uintptr_t end;
} mapped[MAPPED_MAX];

static _Atomic size_t n_mapped; // entries ever used

static void on_bus_error(int signo, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    size_t n = atomic_load(&n_mapped);
    for (size_t i = 0; i < n; i++) {
        uintptr_t start = atomic_load(&mapped[i].start);
        if (start <= 1 || at < start || at >= atomic_load(&mapped[i].end))
            continue;
        void *zeros = mmap((void *)(at & ~(page - 1)), page, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (zeros != MAP_FAILED)
            return;
    }
    signal(signo, SIG_DFL); // the access repeats and kills the process
}

void mapped_file_guard(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGBUS, &action, NULL);
}

static void guard_mapping(uintptr_t start, uintptr_t end)
{
    for (size_t i = 0; i < MAPPED_MAX; i++) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong(&mapped[i].start, &none, 1))
            continue;
        size_t n = atomic_load(&n_mapped);
        while (n < i + 1 && !atomic_compare_exchange_weak(&n_mapped, &n, i + 1))
            ;
        atomic_store(&mapped[i].end, end);
        atomic_store(&mapped[i].start, start);
        return;
    }
}

void *mapped_file_open(int fd, size_t n)
{
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return NULL;
    guard_mapping((uintptr_t)p, (uintptr_t)p + n);
    return p;
}

void mapped_file_close(const void *p, size_t n)
{
    size_t used = atomic_load(&n_mapped);
    for (size_t i = 0; i < used; i++)
        if (atomic_load(&mapped[i].start) == (uintptr_t)p) {
            atomic_store(&mapped[i].start, 0);
            break;
        }
    munmap((void *)p, n);
}
