#include "agent/agent.h"

#include <pthread.h>

#include "model/builder.h"

struct label {
    struct str key, value;
};

struct label_set {
    const struct label *labels; // sorted by key
    uint32_t n;
};

enum { MOST_SETS = 1 << 20, MOST_BYTES = 64 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct arena *memory;
static struct label_set *sets;
static size_t n_sets, cap_sets;
static struct hash_table index_of;

static uint64_t hash_labels(const struct label *labels, uint32_t n)
{
    uint64_t hash = n;
    for (uint32_t i = 0; i < n; i++)
        hash = hash_bytes(labels[i].value.p, labels[i].value.n,
                          hash_bytes(labels[i].key.p, labels[i].key.n, hash));
    return hash;
}

static bool same(const struct label_set *set, const struct label *labels, uint32_t n)
{
    if (set->n != n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!str_eq(set->labels[i].key, labels[i].key) ||
            !str_eq(set->labels[i].value, labels[i].value))
            return false;
    return true;
}

static struct str keep(struct str s)
{
    return (struct str){arena_copy(memory, s.p, s.n), s.n};
}

static uint32_t intern(const struct label *labels, uint32_t n)
{
    uint64_t hash = hash_labels(labels, n);
    for (struct hash_probe at = hash_find(&index_of, hash); hash_hit(&index_of, &at);
         hash_next(&index_of, &at))
        if (same(&sets[at.item], labels, n))
            return at.item;
    if (n_sets >= MOST_SETS)
        return 0;
    struct label *copy = arena_array(memory, n + 1, sizeof *copy);
    for (uint32_t i = 0; i < n; i++)
        copy[i] = (struct label){keep(labels[i].key), keep(labels[i].value)};
    sets = arena_push(memory, sets, n_sets, &cap_sets, sizeof *sets);
    sets[n_sets] = (struct label_set){copy, n};
    hash_add(&index_of, memory, hash, (uint32_t)n_sets);
    return (uint32_t)n_sets++;
}

static bool begin(void)
{
    if (memory)
        return true;
    memory = arena_new(MOST_BYTES);
    if (!memory)
        return false;
    hash_init(&index_of, memory, 64);
    intern(NULL, 0);
    return true;
}

enum { MOST_LABELS = 64 };

// base without key, and with key=value if value.p is set.
static uint32_t change(uint32_t base, struct str key, struct str value)
{
    struct label labels[MOST_LABELS];
    uint32_t n = 0;
    bool placed = !value.p;
    if (base >= n_sets)
        base = 0;
    for (uint32_t i = 0; i < sets[base].n && n + 1 < MOST_LABELS; i++) {
        const struct label *l = &sets[base].labels[i];
        int c = str_cmp(l->key, key);
        if (c >= 0 && !placed) {
            labels[n++] = (struct label){key, value};
            placed = true;
        }
        if (c != 0)
            labels[n++] = *l;
    }
    if (!placed)
        labels[n++] = (struct label){key, value};
    return intern(labels, n);
}

// The empty set if there is no memory.
static uint32_t try_change(uint32_t base, struct str key, struct str value)
{
    struct arena_trap trap;
    if (!begin() || ARENA_TRY(memory, trap))
        return 0;
    uint32_t set = change(base, key, value);
    arena_try_end(memory);
    return set;
}

static uint32_t locked_change(uint32_t base, struct str key, struct str value)
{
    pthread_mutex_lock(&lock);
    uint32_t set = try_change(base, key, value);
    pthread_mutex_unlock(&lock);
    return set;
}

uint32_t agent_label_add(uint32_t base, struct str key, struct str value)
{
    return locked_change(base, key, value.p ? value : STR(""));
}

uint32_t agent_label_remove(uint32_t base, struct str key)
{
    return locked_change(base, key, (struct str){NULL, 0});
}

void agent_label_build(uint32_t set, struct model_builder *b)
{
    pthread_mutex_lock(&lock);
    struct label_set found = set < n_sets ? sets[set] : (struct label_set){NULL, 0};
    pthread_mutex_unlock(&lock);
    // The labels themselves never move.
    for (uint32_t i = 0; i < found.n; i++)
        model_build_label(b, found.labels[i].key, found.labels[i].value);
}
