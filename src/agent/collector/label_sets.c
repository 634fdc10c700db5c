// Label sets: interned, immutable, counted.
//
// A set is known by a number: its place in the table, and how often that place was used before.
// Who holds a reference keeps it. What nobody holds stays for a while, so that sets which come
// again and again are found again, and is freed once no stack carries it either. A number whose
// set is gone means the empty set.
//
// Threads keep references in stock to the sets that they used last: what comes again and again,
// such as the tag of a request, takes no lock.
#include "agent/collector/label_sets.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/attributes.h"
#include "model/builder.h"

struct label {
    struct str key, value;
};

struct label_set {
    struct label *labels; // sorted by key; one block with the texts; NULL: free or empty
    uint32_t n;
    uint32_t refs;
    uint64_t hash;
    uint32_t next;  // in its bucket, or in the list of free ones; place + 1, 0: none
    uint32_t bytes; // of the block
    uint16_t uses;  // of this place
    uint8_t idle;   // sweeps that found it unused
    bool live, marked;
};

enum {
    PLACE_BITS = 20,
    MOST_SETS = 1 << 18,
    MOST_USES = 1 << (32 - PLACE_BITS),
    MOST_BYTES = 24 << 20,
    BUCKETS = 1 << 14,
    // This many that nobody holds are no reason to sweep.
    FEW_IDLE = 4096,
    // One for samples that are still in a ring, one because the first may come at once.
    IDLE_SWEEPS = 2,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct label_set *sets; // the first is the empty one
static uint32_t n_sets, cap_sets, n_live, n_idle, first_free;
static uint32_t *buckets;
static size_t n_bytes;
static uint64_t n_dropped;

static uint32_t number_of(uint32_t place)
{
    return (uint32_t)sets[place].uses << PLACE_BITS | place;
}

// The set with this number; NULL if it is gone.
static struct label_set *find(uint32_t number)
{
    uint32_t place = number & ((1u << PLACE_BITS) - 1);
    return place < n_sets && sets[place].live && number_of(place) == number ? &sets[place] : NULL;
}

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

static bool begin(void)
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

// A free place, taken off the list; 0: none.
static uint32_t take_place(void)
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

// One block: the labels, then their texts.
static struct label *copy_labels(const struct label *labels, uint32_t n, uint32_t *bytes)
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

// A count that is full stays so: that set is never freed.
static void hold(struct label_set *set, uint32_t n)
{
    if (!set || set == sets || set->refs == UINT32_MAX)
        return;
    n_idle -= set->refs == 0;
    set->refs = set->refs > UINT32_MAX - n ? UINT32_MAX : set->refs + n;
}

static void release(struct label_set *set, uint32_t n)
{
    if (!set || set == sets || !set->refs || set->refs == UINT32_MAX)
        return;
    set->refs = set->refs > n ? set->refs - n : 0;
    set->idle = 0;
    n_idle += set->refs == 0;
}

// A reference to the set of these labels. False: there is no room for a new one.
static bool intern(const struct label *labels, uint32_t n, uint32_t *number)
{
    *number = 0;
    if (n == 0)
        return true;
    uint64_t hash = hash_labels(labels, n);
    uint32_t *bucket = &buckets[hash % BUCKETS];
    for (uint32_t at = *bucket; at; at = sets[at - 1].next)
        if (sets[at - 1].hash == hash && same(&sets[at - 1], labels, n)) {
            hold(&sets[at - 1], 1);
            *number = number_of(at - 1);
            return true;
        }
    uint32_t bytes = 0;
    struct label *copy = copy_labels(labels, n, &bytes);
    uint32_t place = copy ? take_place() : 0;
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
    *number = number_of(place);
    return true;
}

// A reference to base without key, and with key=value if value.p is set. False: there is no room,
// so it is base itself.
static bool change(uint32_t base, struct str key, struct str value, uint32_t *number)
{
    struct label labels[AGENT_LABELS + 1];
    uint32_t n = 0;
    bool placed = !value.p;
    const struct label_set *set = find(base);
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
    if (n <= AGENT_LABELS && intern(labels, n, number))
        return true;
    n_dropped++;
    hold(find(base), 1);
    *number = base;
    return false;
}

// --- a thread's stock ---

enum { STOCKS = 8, REFERENCES = 256, STOCK_TEXT = 56 };

// References to a set, and what it was made of if that is short.
struct stock {
    uint32_t set;        // 0: none
    uint32_t references; // the last one is never given away
    uint32_t base;       // held as well, so that its number stays its own
    uint8_t n_key, n_value;
    enum { NOT_KNOWN, ADDED, REMOVED } how;
    char text[STOCK_TEXT]; // key and value
};

struct thread_stocks {
    struct stock stocks[STOCKS];
    uint32_t next; // to be replaced
};

static __thread struct thread_stocks *own INITIAL_EXEC;
static pthread_key_t at_exit;
static bool has_key;

// With the lock held.
static void give_back(struct stock *s)
{
    release(find(s->set), s->references);
    release(find(s->base), 1);
}

static void on_thread_exit(void *stocks)
{
    struct thread_stocks *mine = stocks;
    own = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < STOCKS; i++)
        give_back(&mine->stocks[i]);
    pthread_mutex_unlock(&lock);
    free(mine);
}

static void make_key(void)
{
    has_key = pthread_key_create(&at_exit, on_thread_exit) == 0;
}

// NULL: no memory.
static struct thread_stocks *own_stocks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (own)
        return own;
    pthread_once(&once, make_key);
    struct thread_stocks *mine = has_key ? calloc(1, sizeof *mine) : NULL;
    if (mine && pthread_setspecific(at_exit, mine)) {
        free(mine);
        mine = NULL;
    }
    return own = mine;
}

static struct stock *stock_of(uint32_t set)
{
    for (int i = 0; own && set && i < STOCKS; i++)
        if (own->stocks[i].set == set)
            return &own->stocks[i];
    return NULL;
}

static struct stock *stock_made_of(uint32_t base, struct str key, struct str value)
{
    for (int i = 0; own && i < STOCKS; i++) {
        struct stock *s = &own->stocks[i];
        if (s->how == (value.p ? ADDED : REMOVED) && s->base == base && s->n_key == key.n &&
            s->n_value == value.n && str_eq((struct str){s->text, key.n}, key) &&
            str_eq((struct str){s->text + key.n, value.n}, value))
            return s;
    }
    return NULL;
}

// With the lock held: the stock of a set, full, in place of the one that came first.
static struct stock *stock_up(struct thread_stocks *mine, uint32_t number)
{
    struct label_set *set = find(number);
    if (!mine || !set || set == sets)
        return NULL;
    struct stock *s = stock_of(number);
    if (!s) {
        s = &mine->stocks[mine->next++ % STOCKS];
        give_back(s);
        *s = (struct stock){.set = number};
    }
    if (s->references < REFERENCES) {
        hold(set, REFERENCES - s->references);
        s->references = REFERENCES;
    }
    return s;
}

// With the lock held.
static void remember(struct stock *s, uint32_t base, struct str key, struct str value)
{
    if (!s || key.n + value.n > STOCK_TEXT || !find(base))
        return;
    hold(find(base), 1);
    release(find(s->base), 1);
    s->how = value.p ? ADDED : REMOVED;
    s->base = base;
    s->n_key = (uint8_t)key.n;
    s->n_value = (uint8_t)value.n;
    if (key.n)
        memcpy(s->text, key.p, key.n);
    if (value.n)
        memcpy(s->text + key.n, value.p, value.n);
}

static uint32_t make(uint32_t base, struct str key, struct str value)
{
    struct stock *s = stock_made_of(base, key, value);
    if (s && s->references > 1) {
        s->references--;
        return s->set;
    }
    struct thread_stocks *mine = own_stocks();
    uint32_t number = 0;
    pthread_mutex_lock(&lock);
    if (begin() && change(base, key, value, &number))
        remember(stock_up(mine, number), base, key, value);
    pthread_mutex_unlock(&lock);
    return number;
}

uint32_t agent_label_add(uint32_t base, struct str key, struct str value)
{
    return make(base, key, value.p ? value : STR(""));
}

uint32_t agent_label_remove(uint32_t base, struct str key)
{
    return make(base, key, (struct str){NULL, 0});
}

void agent_label_hold(uint32_t number)
{
    struct stock *s = stock_of(number);
    if (s && s->references > 1) {
        s->references--;
        return;
    }
    struct thread_stocks *mine = own_stocks();
    pthread_mutex_lock(&lock);
    hold(find(number), 1);
    stock_up(mine, number);
    pthread_mutex_unlock(&lock);
}

void agent_label_release(uint32_t number)
{
    struct stock *s = stock_of(number);
    if (s && s->references < 2 * REFERENCES) {
        s->references++;
        return;
    }
    pthread_mutex_lock(&lock);
    release(find(number), s ? REFERENCES + 1 : 1);
    pthread_mutex_unlock(&lock);
    if (s)
        s->references -= REFERENCES;
}

void agent_label_each(uint32_t number,
                      void (*visit)(void *context, struct str key, struct str value), void *context)
{
    pthread_mutex_lock(&lock);
    struct label_set *set = find(number);
    struct label_set found = set ? *set : (struct label_set){0};
    pthread_mutex_unlock(&lock);
    // Only a sweep frees them, and the caller keeps that away.
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
    pthread_mutex_lock(&lock);
    *counts = (struct agent_label_counts){
        .sets = n_live,
        .memory = n_bytes + cap_sets * sizeof *sets + (buckets ? BUCKETS * sizeof *buckets : 0),
        .dropped = n_dropped,
    };
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    bool wanted = n_idle > FEW_IDLE || (n_idle && n_bytes > MOST_BYTES / 2);
    pthread_mutex_unlock(&lock);
    return wanted;
}

void labels_mark(uint32_t number)
{
    struct label_set *set = find(number);
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
    pthread_mutex_lock(&lock);
}

void labels_unlock(void)
{
    pthread_mutex_unlock(&lock);
}
