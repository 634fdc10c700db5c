#include "capture/heap_tables.h"

#include <kiln/heap.h>

#include "base/attributes.h"

struct heap_tables heap_tables;
EXPORT unsigned char kiln_heap_filter[65536];

// --- records ---

uint32_t heap_reserve(size_t bytes)
{
    size_t size = (bytes + 7) & ~(size_t)7;
    uint64_t used = atomic_load_explicit(&heap_tables.used, memory_order_relaxed), at;
    do {
        at = used;
        if ((at & ((1u << 20) - 1)) + size > HEAP_BLOCK)
            at = (at >> 20) + 1 < heap_tables.n_blocks ? ((at >> 20) + 1) << 20 : UINT64_MAX;
        if (at == UINT64_MAX || size > HEAP_BLOCK)
            return 0;
    } while (!atomic_compare_exchange_weak(&heap_tables.used, &used, at + size));
    return (uint32_t)(at >> 20 << HEAP_PLACES | (at & ((1u << 20) - 1)) / 8);
}

static uint32_t hash_heap_stack(const uintptr_t *pcs, size_t n, bool truncated)
{
    uint64_t hash = n * 2 + truncated;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ pcs[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return (uint32_t)(hash >> 16);
}

static bool heap_stack_equals(const struct heap_stack *s, const uintptr_t *pcs, size_t n,
                              uint32_t hash, bool truncated)
{
    if (s->hash != hash || s->n != n || s->truncated != truncated)
        return false;
    for (size_t i = 0; i < n; i++)
        if (s->pcs[i] != pcs[i])
            return false;
    return true;
}

static uint32_t add_heap_stack(const uintptr_t *pcs, size_t n, uint32_t hash, bool truncated)
{
    uint32_t number =
        heap_reserve(sizeof(struct heap_stack) + n * (sizeof(uint64_t) + sizeof(uint16_t)));
    struct heap_stack *s = heap_record(number);
    if (!s)
        return 0;
    s->hash = hash;
    s->n = (uint16_t)n;
    s->truncated = truncated;
    _Atomic uint16_t *modules = (_Atomic uint16_t *)(s->pcs + n);
    for (size_t i = 0; i < n; i++) {
        s->pcs[i] = pcs[i];
        atomic_store_explicit(&modules[i], HEAP_UNRESOLVED, memory_order_relaxed);
    }
    return number;
}

uint32_t heap_find_stack(const uintptr_t *pcs, size_t n, bool truncated)
{
    enum { MOST_PROBES = 256 };
    uint32_t hash = hash_heap_stack(pcs, n, truncated), made = 0;
    for (uint32_t i = 0; i < MOST_PROBES; i++) {
        _Atomic uint32_t *place = &heap_tables.head->index[(hash + i) % HEAP_INDEX];
        uint32_t number = atomic_load_explicit(place, memory_order_acquire);
        if (number == 0) {
            if (!made)
                made = add_heap_stack(pcs, n, hash, truncated);
            if (!made)
                break;
            if (atomic_compare_exchange_strong(place, &number, made))
                return made;
        }
        // Another thread may have inserted the same stack meanwhile. Then our record stays unused.
        const struct heap_stack *s = heap_record(number);
        if (s && heap_stack_equals(s, pcs, n, hash, truncated))
            return number;
    }
    return heap_tables.no_stack;
}

// --- live objects ---

static void filter_add(uintptr_t address)
{
    unsigned char *count = &kiln_heap_filter[KILN_HEAP_PLACE(address)];
    unsigned char old = __atomic_load_n(count, __ATOMIC_RELAXED);
    // A saturated counter is never decremented, because the true count is unknown.
    while (old < UINT8_MAX &&
           !__atomic_compare_exchange_n(count, &old, (unsigned char)(old + 1), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void filter_remove(uintptr_t address)
{
    unsigned char *count = &kiln_heap_filter[KILN_HEAP_PLACE(address)];
    unsigned char old = __atomic_load_n(count, __ATOMIC_RELAXED);
    while (old > 0 && old < UINT8_MAX &&
           !__atomic_compare_exchange_n(count, &old, (unsigned char)(old - 1), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static size_t first_place(const struct heap_level *level, uintptr_t address)
{
    return (size_t)((address >> 4) * UINT64_C(0xd1b54a32d192ed03) >> 32) & (level->n - 1);
}

static bool insert_at_level(struct heap_level *level, uintptr_t address,
                            const struct capture_heap_object *object)
{
    size_t first = first_place(level, address);
    for (size_t i = first; i < first + HEAP_WINDOW; i++) {
        uintptr_t old = atomic_load_explicit(&level->keys[i], memory_order_relaxed);
        if ((old != 0 && old != HEAP_GONE) ||
            !atomic_compare_exchange_strong(&level->keys[i], &old, HEAP_COMING))
            continue;
        level->objects[i] = *object;
        atomic_fetch_add_explicit(&level->used, old == 0, memory_order_relaxed);
        atomic_store_explicit(&level->keys[i], address, memory_order_release);
        return true;
    }
    return false;
}

bool heap_insert(uintptr_t address, const struct capture_heap_object *object)
{
    for (int i = 0; i < HEAP_LEVELS; i++) {
        struct heap_level *level = &heap_tables.levels[i];
        if (level->n && insert_at_level(level, address, object)) {
            filter_add(address);
            return true;
        }
    }
    return false;
}

bool heap_remove(uintptr_t address, struct capture_heap_object *object)
{
    // Keys up to HEAP_COMING are markers: free(NULL) must not match an empty place.
    if (address <= HEAP_COMING)
        return false;
    for (int l = 0; l < HEAP_LEVELS; l++) {
        struct heap_level *level = &heap_tables.levels[l];
        if (!level->n || atomic_load_explicit(&level->used, memory_order_relaxed) == 0)
            continue;
        size_t first = first_place(level, address);
        for (size_t i = first; i < first + HEAP_WINDOW; i++) {
            uintptr_t key = atomic_load_explicit(&level->keys[i], memory_order_acquire);
            if (key != address)
                continue;
            *object = level->objects[i];
            if (!atomic_compare_exchange_strong(&level->keys[i], &key, HEAP_GONE))
                return false;
            filter_remove(address);
            return true;
        }
    }
    return false;
}

// --- dropping an image ---

void heap_drop_image(void)
{
    heap_tables.head = NULL;
    heap_tables.n_blocks = 0;
    heap_tables.shared = heap_tables.inherited = false;
    // Saturated counters stay as they are: see filter_add.
    for (size_t i = 0; i < sizeof kiln_heap_filter; i++)
        if (kiln_heap_filter[i] != UINT8_MAX)
            kiln_heap_filter[i] = 0;
    for (int i = 0; i < HEAP_LEVELS; i++) {
        struct heap_level *level = &heap_tables.levels[i];
        if (level->n && atomic_load(&level->used))
            for (size_t k = 0; k < level->n + HEAP_WINDOW; k++)
                atomic_store_explicit(&level->keys[k], 0, memory_order_relaxed);
        atomic_store(&level->used, 0);
    }
}

// --- random gaps ---

// ln x for x in (0, 1], to seven digits, by the artanh series.
static double natural_logarithm(double x)
{
    union {
        double d;
        uint64_t u;
    } bits = {x};
    int exponent = (int)(bits.u >> 52) - 1023;
    bits.u = (bits.u & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52;
    double t = (bits.d - 1) / (bits.d + 1), t2 = t * t;
    double series =
        t * (1 + t2 * (1.0 / 3 + t2 * (1.0 / 5 + t2 * (1.0 / 7 + t2 * (1.0 / 9 + t2 / 11)))));
    return 2 * series + exponent * 0.69314718055994531;
}

uint64_t heap_gap(uint64_t *random, uint64_t mean)
{
    // SplitMix64: any seed is good.
    uint64_t x = *random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    // Rounding up makes it geometrically distributed, the discrete memoryless distribution.
    double uniform = ((double)(x >> 11) + 0.5) * 0x1p-53;
    double gap = -natural_logarithm(uniform) * (double)mean;
    return gap < 0x1p62 ? (uint64_t)gap + 1 : UINT64_C(1) << 62;
}

double heap_chance(double x)
{
    if (x > 40)
        return 1;
    // exp(-x) = exp(-x / 2^k)^(2^k). Sum up 1 - exp(-y) directly, because it may be tiny.
    int k = 0;
    for (; x > 0.25; x /= 2)
        k++;
    double chance =
        x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6 * (1 - x / 7))))));
    for (; k > 0; k--)
        chance = chance * (2 - chance);
    return chance;
}
