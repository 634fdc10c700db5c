// Allocates known amounts at known sites, frees some of them, and prints what it did: for each site
// and size a line `SITE SIZE ALLOCATED LIVE`, in objects. tests/heap/run compares that with the
// profile.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#define SITE extern "C" __attribute__((noinline))

// Calls must not be the last thing that a site does: it would not be on the stack.
template <class T> static T *kept(T *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

SITE void *site_small(size_t n)
{
    return kept(malloc(n));
}
SITE void *site_medium(size_t n)
{
    return kept(malloc(n));
}
SITE void *site_mixed(size_t n)
{
    return kept(malloc(n));
}
SITE void *site_large(size_t n)
{
    return kept(malloc(n));
}
SITE void *site_huge(size_t n)
{
    return kept(malloc(n));
}
SITE void *site_calloc(size_t n)
{
    return kept(calloc(n / 8, 8));
}
SITE void *site_realloc(void *p, size_t n)
{
    return kept(realloc(p, n));
}
SITE void *site_reallocarray(void *p, size_t n)
{
    return kept(reallocarray(p, n / 4, 4));
}
SITE void *site_shrink(void *p, size_t n)
{
    return kept(realloc(p, n));
}
SITE void *site_memalign(size_t n)
{
    return kept(memalign(256, n));
}
SITE void *site_aligned_alloc(size_t n)
{
    return kept(aligned_alloc(64, n));
}
SITE void *site_posix_memalign(size_t n)
{
    void *p = nullptr;
    if (posix_memalign(&p, 128, n))
        abort();
    return kept(p);
}
SITE void *site_valloc(size_t n)
{
    return kept(valloc(n));
}
SITE void *site_pvalloc(size_t n)
{
    return kept(pvalloc(n));
}
SITE void *site_new(size_t n)
{
    return kept(::operator new(n));
}
SITE void *site_new_array(size_t n)
{
    return kept(new char[n]);
}
SITE void *site_new_aligned(size_t n)
{
    return kept(::operator new(n, std::align_val_t(64)));
}
SITE void *site_new_nothrow(size_t n)
{
    return kept(::operator new(n, std::nothrow));
}
SITE void *site_cross_thread(size_t n)
{
    return kept(malloc(n));
}
SITE void *site_dying_thread(size_t n)
{
    return kept(malloc(n));
}

struct tally {
    long allocated, live;
};
static std::map<std::pair<std::string, size_t>, tally> tallies;
static std::mutex tallies_lock;

static void count(const char *site, size_t n, long allocated, long live)
{
    std::lock_guard<std::mutex> guard(tallies_lock);
    tally &t = tallies[{site, n}];
    t.allocated += allocated;
    t.live += live;
}

static std::vector<void *> kept_objects;

// Every fourth object stays.
static void simple(const char *name, void *(*site)(size_t), size_t n, long times,
                   void (*give_back)(void *, size_t))
{
    std::vector<void *> ring(64);
    long live = 0;
    for (long i = 0; i < times; i++) {
        void *p = site(n);
        if (!p)
            abort();
        *(volatile char *)p = 1;
        if (i % 4 == 0) {
            kept_objects.push_back(p);
            live++;
            continue;
        }
        // Not freed in the order of allocation, nor at once.
        size_t at = (size_t)(i * 7) % ring.size();
        if (ring[at])
            give_back(ring[at], n);
        ring[at] = p;
    }
    for (void *p : ring)
        if (p)
            give_back(p, n);
    count(name, n, times, live);
}

static void by_free(void *p, size_t)
{
    free(p);
}
static void by_delete(void *p, size_t)
{
    ::operator delete(p);
}
static void by_sized_delete(void *p, size_t n)
{
    ::operator delete(p, n);
}
static void by_array_delete(void *p, size_t)
{
    delete[](char *) p;
}
static void by_aligned_delete(void *p, size_t n)
{
    ::operator delete(p, n, std::align_val_t(64));
}

static void chains(const char *name, void *(*site)(void *, size_t), long times)
{
    for (long i = 0; i < times; i++) {
        void *p = nullptr;
        size_t last = 0;
        for (size_t n = 64; n <= 65536; n *= 2) {
            p = site(p, n);
            memset(p, 1, n);
            if (last)
                count(name, last, 0, -1);
            count(name, n, 1, 1);
            last = n;
        }
        if (i % 4) {
            free(p);
            count(name, last, 0, -1);
        } else {
            kept_objects.push_back(p);
        }
    }
}

static void shrinking(long times)
{
    for (long i = 0; i < times; i++) {
        void *p = site_shrink(nullptr, 200000);
        count("site_shrink", 200000, 1, 0);
        p = site_shrink(p, 20000);
        count("site_shrink", 20000, 1, i % 2);
        if (i % 2)
            kept_objects.push_back(p);
        else
            free(p);
    }
}

// --- threads ---

static std::vector<void *> handed[4];

static void *produce(void *which)
{
    auto &mine = handed[(intptr_t)which];
    for (int i = 0; i < 100000; i++)
        mine.push_back(site_cross_thread(300));
    return nullptr;
}

static void *consume(void *which)
{
    auto &others = handed[((intptr_t)which + 1) % 4];
    for (size_t i = 0; i < others.size(); i++)
        if (i % 5)
            free(others[i]);
        else
            *(char *)others[i] = 1;
    return nullptr;
}

static void *die(void *)
{
    void **first = nullptr;
    for (int i = 0; i < 200; i++) {
        void **p = (void **)site_dying_thread(2000);
        *p = first;
        first = p;
    }
    return first; // alive when the thread is not
}

static void in_threads(void *(*routine)(void *), int n)
{
    pthread_t threads[64];
    for (int i = 0; i < n; i++)
        pthread_create(&threads[i], nullptr, routine, (void *)(intptr_t)i);
    for (int i = 0; i < n; i++) {
        void *p;
        pthread_join(threads[i], &p);
        kept_objects.push_back(p);
    }
}

int main(int argc, char **argv)
{
    kept_objects.reserve(4 << 20);
    simple("site_small", site_small, 24, 2000000, by_free);
    simple("site_medium", site_medium, 1000, 80000, by_free);
    for (size_t n = 8; n <= 8192; n += 200)
        simple("site_mixed", site_mixed, n, 2000, by_free);
    simple("site_large", site_large, 100000, 400, by_free);
    simple("site_huge", site_huge, 3000000, 16, by_free);
    simple("site_calloc", site_calloc, 4000, 10000, by_free);
    simple("site_memalign", site_memalign, 700, 40000, by_free);
    simple("site_aligned_alloc", site_aligned_alloc, 640, 40000, by_free);
    simple("site_posix_memalign", site_posix_memalign, 500, 40000, by_free);
    simple("site_valloc", site_valloc, 4096, 3000, by_free);
    simple("site_pvalloc", site_pvalloc, 4096, 3000, by_free);
    simple("site_new", site_new, 48, 500000, by_sized_delete);
    simple("site_new_array", site_new_array, 5000, 8000, by_array_delete);
    simple("site_new_aligned", site_new_aligned, 192, 100000, by_aligned_delete);
    simple("site_new_nothrow", site_new_nothrow, 900, 20000, by_delete);
    chains("site_realloc", site_realloc, 300);
    chains("site_reallocarray", site_reallocarray, 300);
    shrinking(200);
    in_threads(produce, 4);
    in_threads(consume, 4);
    count("site_cross_thread", 300, 400000, 80000);
    for (int i = 0; i < 10; i++)
        in_threads(die, 16);
    count("site_dying_thread", 2000, 10 * 16 * 200, 10 * 16 * 200);
    for (const auto &[key, t] : tallies)
        printf("%s %zu %ld %ld\n", key.first.c_str(), key.second, t.allocated, t.live);
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "kill") == 0)
        kill(getpid(), SIGKILL);
    if (argc > 1 && strcmp(argv[1], "_exit") == 0)
        _exit(0);
    return 0;
}
