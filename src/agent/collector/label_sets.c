// Label sets: interned, immutable, reference-counted.
//
// A set's id consists of its slot in the table and how often that slot was reused. Unreferenced
// sets are kept for a while, so that recurring sets are found again, and freed once no stack uses
// them. The id of a freed set means the empty set.
//
// Threads cache references to the sets they used last, so recurring labels, such as a request's
// tag, take no lock.
#include "agent/collector/label_sets.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/attributes.h"
#include "model/builder.h"

struct label {
    struct str key, value;
};

struct label_set {
    struct label *labels; // sorted by key; one allocation including the texts; NULL: free or empty
    uint32_t n;
    uint32_t refs;
    uint64_t hash;
    uint32_t next;  // in its bucket or on the free list; slot + 1, 0: end
    uint32_t bytes; // size of that allocation
    uint16_t uses;  // number of reuses of this slot
    uint8_t idle;   // sweeps that found it unused
    bool live, marked;
};

enum {
    PLACE_BITS = 20,
    MOST_SETS = 1 << 18,
    MOST_USES = 1 << (32 - PLACE_BITS),
    MOST_BYTES = 24 << 20,
    BUCKETS = 1 << 14,
    // Up to this many unreferenced sets are no reason to sweep.
    FEW_IDLE = 4096,
    // One for samples that are still in a ring, one because the first sweep may come at once.
    IDLE_SWEEPS = 2,
};

static pthread_mutex_t label_sets_lock = PTHREAD_MUTEX_INITIALIZER;
static struct label_set *sets; // the first one is the empty set
static uint32_t n_sets, cap_sets, n_live, n_idle, first_free;
static uint32_t *buckets;
static size_t n_bytes;
static uint64_t n_dropped;

static uint32_t label_set_id(uint32_t place)
{
    return (uint32_t)sets[place].uses << PLACE_BITS | place;
}

// Returns the set with this id; NULL if it was freed.
static struct label_set *find_set(uint32_t number)
{
    uint32_t place = number & ((1u << PLACE_BITS) - 1);
    return place < n_sets && sets[place].live && label_set_id(place) == number ? &sets[place]
                                                                               : NULL;
}

static uint64_t hash_labels(const struct label *labels, uint32_t n)
{
    uint64_t hash = n;
    for (uint32_t i = 0; i < n; i++)
        hash = hash_bytes(labels[i].value.p, labels[i].value.n,
                          hash_bytes(labels[i].key.p, labels[i].key.n, hash));
    return hash;
}

static bool set_has_labels(const struct label_set *set, const struct label *labels, uint32_t n)
{
    if (set->n != n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!str_eq(set->labels[i].key, labels[i].key) ||
            !str_eq(set->labels[i].value, labels[i].value))
            return false;
    return true;
}

static bool init_label_sets(void)
{
    if (n_sets)
        return true;
    buckets = calloc(BUCKETS, sizeof *buckets);
    sets = calloc(64, sizeof *sets);
    if (!buckets || !sets) {
        free(buckets);
        free(sets);
        buckets = NULL;
        sets = NULL;
        n_dropped++;
        return false;
    }
    cap_sets = 64;
    n_sets = 1;
    sets[0] = (struct label_set){.live = true, .refs = 1};
    return true;
}

// Takes a slot off the free list; 0: none is left.
static uint32_t take_set_place(void)
{
    if (first_free) {
        uint32_t place = first_free - 1;
        first_free = sets[place].next;
        return place;
    }
    if (n_sets == cap_sets) {
        uint32_t cap = cap_sets * 2;
        struct label_set *more = cap <= MOST_SETS ? realloc(sets, cap * sizeof *sets) : NULL;
        if (!more)
            return 0;
        memset(more + cap_sets, 0, (cap - cap_sets) * sizeof *more);
        sets = more;
        cap_sets = cap;
    }
    return n_sets++;
}

// Allocates one block with the labels and their texts.
static struct label *copy_set_labels(const struct label *labels, uint32_t n, uint32_t *bytes)
{
    size_t size = n * sizeof *labels;
    for (uint32_t i = 0; i < n; i++)
        size += labels[i].key.n + labels[i].value.n;
    struct label *copy = size + n_bytes <= MOST_BYTES ? malloc(size) : NULL;
    if (!copy)
        return NULL;
    char *text = (char *)(copy + n);
    for (uint32_t i = 0; i < n; i++) {
        struct str *from[2] = {(struct str *)&labels[i].key, (struct str *)&labels[i].value};
        struct str *to[2] = {&copy[i].key, &copy[i].value};
        for (int k = 0; k < 2; k++) {
            *to[k] = (struct str){text, from[k]->n};
            memcpy(text, from[k]->p, from[k]->n);
            text += from[k]->n;
        }
    }
    *bytes = (uint32_t)size;
    return copy;
}

// A saturated refcount is never decremented, so that set is never freed.
static void hold_set(struct label_set *set, uint32_t n)
{
    if (!set || set == sets || set->refs == UINT32_MAX)
        return;
    n_idle -= set->refs == 0;
    set->refs = set->refs > UINT32_MAX - n ? UINT32_MAX : set->refs + n;
}

static void release_set(struct label_set *set, uint32_t n)
{
    if (!set || set == sets || !set->refs || set->refs == UINT32_MAX)
        return;
    set->refs = set->refs > n ? set->refs - n : 0;
    set->idle = 0;
    n_idle += set->refs == 0;
}

// Gets a reference to the set of these labels. Returns false if there is no memory for a new set.
static bool intern_set(const struct label *labels, uint32_t n, uint32_t *number)
{
    *number = 0;
    if (n == 0)
        return true;
    uint64_t hash = hash_labels(labels, n);
    uint32_t *bucket = &buckets[hash % BUCKETS];
    for (uint32_t at = *bucket; at; at = sets[at - 1].next)
        if (sets[at - 1].hash == hash && set_has_labels(&sets[at - 1], labels, n)) {
            hold_set(&sets[at - 1], 1);
            *number = label_set_id(at - 1);
            return true;
        }
    uint32_t bytes = 0;
    struct label *copy = copy_set_labels(labels, n, &bytes);
    uint32_t place = copy ? take_set_place() : 0;
    if (!place) {
        free(copy);
        return false;
    }
    sets[place] = (struct label_set){.labels = copy,
                                     .n = n,
                                     .refs = 1,
                                     .hash = hash,
                                     .next = *bucket,
                                     .bytes = bytes,
                                     .uses = sets[place].uses,
                                     .live = true};
    *bucket = place + 1;
    n_bytes += bytes;
    n_live++;
    *number = label_set_id(place);
    return true;
}

// Gets a reference to base without key, plus key=value if value.p is not NULL. Returns false if
// there is no room; the reference is then to base itself.
static bool change_set(uint32_t base, struct str key, struct str value, uint32_t *number)
{
    struct label labels[AGENT_LABELS + 1];
    uint32_t n = 0;
    bool placed = !value.p;
    const struct label_set *set = find_set(base);
    for (uint32_t i = 0; set && i < set->n; i++) {
        const struct label *l = &set->labels[i];
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
    if (n <= AGENT_LABELS && intern_set(labels, n, number))
        return true;
    n_dropped++;
    hold_set(find_set(base), 1);
    *number = base;
    return false;
}

// --- per-thread reference cache ---

enum { CACHED_SETS = 8, CACHED_REFERENCES = 256, CACHED_TEXT = 56 };

// Cached references to one set, and the operation that made it, if that fits.
struct cached_refs {
    uint32_t set;        // 0: unused
    uint32_t references; // the last one is kept
    uint32_t base;       // a reference to it is held, so that its id is not reused
    uint8_t n_key, n_value;
    enum { NOT_KNOWN, ADDED, REMOVED } how;
    char text[CACHED_TEXT]; // key, then value
};

struct thread_ref_cache {
    struct cached_refs entries[CACHED_SETS];
    uint32_t next; // entry to replace next
};

static __thread struct thread_ref_cache *own_ref_cache INITIAL_EXEC;
static pthread_key_t ref_cache_key;
static bool has_ref_cache_key;

// Releases an entry's references. The lock is held.
static void release_cached_refs(struct cached_refs *s)
{
    release_set(find_set(s->set), s->references);
    release_set(find_set(s->base), 1);
}

static void free_ref_cache(void *entries)
{
    struct thread_ref_cache *mine = entries;
    own_ref_cache = NULL;
    pthread_mutex_lock(&label_sets_lock);
    for (int i = 0; i < CACHED_SETS; i++)
        release_cached_refs(&mine->entries[i]);
    pthread_mutex_unlock(&label_sets_lock);
    free(mine);
}

static void make_ref_cache_key(void)
{
    has_ref_cache_key = pthread_key_create(&ref_cache_key, free_ref_cache) == 0;
}

// Returns NULL if out of memory.
static struct thread_ref_cache *get_ref_cache(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (own_ref_cache)
        return own_ref_cache;
    pthread_once(&once, make_ref_cache_key);
    struct thread_ref_cache *mine = has_ref_cache_key ? calloc(1, sizeof *mine) : NULL;
    if (mine && pthread_setspecific(ref_cache_key, mine)) {
        free(mine);
        mine = NULL;
    }
    return own_ref_cache = mine;
}

static struct cached_refs *find_cached_set(uint32_t set)
{
    for (int i = 0; own_ref_cache && set && i < CACHED_SETS; i++)
        if (own_ref_cache->entries[i].set == set)
            return &own_ref_cache->entries[i];
    return NULL;
}

static struct cached_refs *find_cached_operation(uint32_t base, struct str key, struct str value)
{
    for (int i = 0; own_ref_cache && i < CACHED_SETS; i++) {
        struct cached_refs *s = &own_ref_cache->entries[i];
        if (s->how == (value.p ? ADDED : REMOVED) && s->base == base && s->n_key == key.n &&
            s->n_value == value.n && str_eq((struct str){s->text, key.n}, key) &&
            str_eq((struct str){s->text + key.n, value.n}, value))
            return s;
    }
    return NULL;
}

// Makes a full entry for the set, replacing the oldest. The lock is held.
static struct cached_refs *fill_cached_refs(struct thread_ref_cache *mine, uint32_t number)
{
    struct label_set *set = find_set(number);
    if (!mine || !set || set == sets)
        return NULL;
    struct cached_refs *s = find_cached_set(number);
    if (!s) {
        s = &mine->entries[mine->next++ % CACHED_SETS];
        release_cached_refs(s);
        *s = (struct cached_refs){.set = number};
    }
    if (s->references < CACHED_REFERENCES) {
        hold_set(set, CACHED_REFERENCES - s->references);
        s->references = CACHED_REFERENCES;
    }
    return s;
}

// Stores the operation that made the set. The lock is held.
static void set_cached_operation(struct cached_refs *s, uint32_t base, struct str key,
                                 struct str value)
{
    if (!s || key.n + value.n > CACHED_TEXT || !find_set(base))
        return;
    hold_set(find_set(base), 1);
    release_set(find_set(s->base), 1);
    s->how = value.p ? ADDED : REMOVED;
    s->base = base;
    s->n_key = (uint8_t)key.n;
    s->n_value = (uint8_t)value.n;
    if (key.n)
        memcpy(s->text, key.p, key.n);
    if (value.n)
        memcpy(s->text + key.n, value.p, value.n);
}

static uint32_t derive_set(uint32_t base, struct str key, struct str value)
{
    struct cached_refs *s = find_cached_operation(base, key, value);
    if (s && s->references > 1) {
        s->references--;
        return s->set;
    }
    struct thread_ref_cache *mine = get_ref_cache();
    uint32_t number = 0;
    pthread_mutex_lock(&label_sets_lock);
    if (init_label_sets() && change_set(base, key, value, &number))
        set_cached_operation(fill_cached_refs(mine, number), base, key, value);
    pthread_mutex_unlock(&label_sets_lock);
    return number;
}

uint32_t agent_label_add(uint32_t base, struct str key, struct str value)
{
    return derive_set(base, key, value.p ? value : STR(""));
}

uint32_t agent_label_remove(uint32_t base, struct str key)
{
    return derive_set(base, key, (struct str){NULL, 0});
}

void agent_label_hold(uint32_t number)
{
    struct cached_refs *s = find_cached_set(number);
    if (s && s->references > 1) {
        s->references--;
        return;
    }
    struct thread_ref_cache *mine = get_ref_cache();
    pthread_mutex_lock(&label_sets_lock);
    hold_set(find_set(number), 1);
    fill_cached_refs(mine, number);
    pthread_mutex_unlock(&label_sets_lock);
}

void agent_label_release(uint32_t number)
{
    struct cached_refs *s = find_cached_set(number);
    if (s && s->references < 2 * CACHED_REFERENCES) {
        s->references++;
        return;
    }
    pthread_mutex_lock(&label_sets_lock);
    release_set(find_set(number), s ? CACHED_REFERENCES + 1 : 1);
    pthread_mutex_unlock(&label_sets_lock);
    if (s)
        s->references -= CACHED_REFERENCES;
}

void agent_label_each(uint32_t number,
                      void (*visit)(void *context, struct str key, struct str value), void *context)
{
    pthread_mutex_lock(&label_sets_lock);
    struct label_set *set = find_set(number);
    struct label_set found = set ? *set : (struct label_set){0};
    pthread_mutex_unlock(&label_sets_lock);
    // Only a sweep frees the labels, and the caller keeps sweeps out.
    for (uint32_t i = 0; i < found.n; i++)
        visit(context, found.labels[i].key, found.labels[i].value);
}

static void build_label(void *builder, struct str key, struct str value)
{
    model_build_label(builder, key, value);
}

void agent_label_build(uint32_t number, struct model_builder *b)
{
    agent_label_each(number, build_label, b);
}

void labels_get_counts(struct agent_label_counts *counts)
{
    pthread_mutex_lock(&label_sets_lock);
    *counts = (struct agent_label_counts){
        .sets = n_live,
        .memory = n_bytes + cap_sets * sizeof *sets + (buckets ? BUCKETS * sizeof *buckets : 0),
        .dropped = n_dropped,
    };
    pthread_mutex_unlock(&label_sets_lock);
}

// --- sweeping ---

static void unlink_set(uint32_t place)
{
    uint32_t *at = &buckets[sets[place].hash % BUCKETS];
    while (*at != place + 1)
        at = &sets[*at - 1].next;
    *at = sets[place].next;
}

static void free_set(uint32_t place)
{
    struct label_set *set = &sets[place];
    unlink_set(place);
    free(set->labels);
    n_bytes -= set->bytes;
    n_live--;
    n_idle--;
    uint16_t uses = (uint16_t)((set->uses + 1) % MOST_USES);
    *set = (struct label_set){.uses = uses, .next = first_free};
    first_free = place + 1;
}

bool labels_want_sweep(void)
{
    pthread_mutex_lock(&label_sets_lock);
    bool wanted = n_idle > FEW_IDLE || (n_idle && n_bytes > MOST_BYTES / 2);
    pthread_mutex_unlock(&label_sets_lock);
    return wanted;
}

void labels_mark(uint32_t number)
{
    struct label_set *set = find_set(number);
    if (set)
        set->marked = true;
}

void labels_sweep(void)
{
    for (uint32_t place = 1; place < n_sets; place++) {
        struct label_set *set = &sets[place];
        if (set->live && !set->refs && !set->marked && ++set->idle > IDLE_SWEEPS)
            free_set(place);
        else if (set->marked || set->refs)
            set->idle = 0;
        set->marked = false;
    }
}

void labels_lock(void)
{
    pthread_mutex_lock(&label_sets_lock);
}

void labels_unlock(void)
{
    pthread_mutex_unlock(&label_sets_lock);
}
