#include "server/tenants.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"

// A tenant may hold three quarters of the memory, two tenants six sevenths: something is left for
// the small requests of others.
enum { BUCKETS = 1024, TIMES_LEFT = 3 };

static struct {
    pthread_mutex_t lock;
    struct budget_account *server;
    size_t limit; // of one tenant
    struct tenant *buckets[BUCKETS];
} tenants = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct tenant **bucket_of(struct str name)
{
    return &tenants.buckets[(hash_bytes(name.p, name.n, 0) >> 32) % BUCKETS];
}

void tenants_init(struct budget_account *server, size_t limit, size_t tenant_limit)
{
    *server = (struct budget_account){.owner = "the server", .limit = limit};
    tenants.server = server;
    tenants.limit = tenant_limit;
}

static struct tenant *tenant_new(struct str name)
{
    struct tenant *t = calloc(1, sizeof *t + name.n + 1);
    if (!t)
        return NULL;
    memcpy(t->name, name.p, name.n);
    snprintf(t->title, sizeof t->title, "tenant %s", t->name);
    t->owner.account = (struct budget_account){.owner = t->title,
                                               .limit = tenants.limit,
                                               .parent = tenants.server,
                                               .times_left = TIMES_LEFT};
    return t;
}

struct tenant *tenants_get(struct str name)
{
    pthread_mutex_lock(&tenants.lock);
    struct tenant **bucket = bucket_of(name), *t = *bucket;
    while (t && !str_eq(str_from(t->name), name))
        t = t->next;
    if (!t && (t = tenant_new(name))) {
        t->next = *bucket;
        *bucket = t;
    }
    if (t)
        t->references++;
    pthread_mutex_unlock(&tenants.lock);
    return t;
}

void tenants_hold(void *context, struct web_owner *owner)
{
    (void)context;
    ((struct tenant *)owner)->references++; // beside that of the caller
}

void tenants_release(void *context, struct web_owner *owner)
{
    (void)context;
    struct tenant *t = (struct tenant *)owner;
    // Workers on a busy machine may be held up for long: only the last reference needs the lock.
    unsigned n = t->references;
    while (n > 1)
        if (atomic_compare_exchange_weak(&t->references, &n, n - 1))
            return;
    pthread_mutex_lock(&tenants.lock);
    if (--t->references == 0) {
        struct tenant **at = bucket_of(str_from(t->name));
        while (*at != t)
            at = &(*at)->next;
        *at = t->next;
        free(t);
    }
    pthread_mutex_unlock(&tenants.lock);
}
