// Threads that decode answers. The cheapest target comes first, and one of the threads takes only
// those that were cheap the last time: a target whose profiles take seconds delays itself.
#include <stdio.h>
#include <stdlib.h>

#include "codec/compress.h"
#include "process/clock.h"
#include "server/scrape_internal.h"
#include "server/tenants.h"

enum {
    DECODE_SECONDS = 10,
    NS_PER_BYTE = 30,   // to decode an unknown profile
    PROFILE_FACTOR = 4, // memory to decode a profile, in units of limits.profile_size
};
static const int64_t SECOND = 1000000000, CHEAP = 250000000;

void scrape_work_free(struct scrape_work *work)
{
    scrape_generation_unref(work->generation);
    free(work->data);
    free(work);
}

// With the lock held.
static void finish_state(struct scrape_state *state, const struct scrape_health *health)
{
    struct scraper *s = state->scraper;
    s->failed += !health->up;
    state->health = *health;
    state->busy = false;
    s->look = true;
    if (!state->target || state->due <= scrape_now())
        net_client_wake(s->client);
}

static void take_out(struct scraper *s, struct scrape_work **link)
{
    struct scrape_work *work = *link;
    *link = work->next;
    s->waiting -= work->n;
}

static void drop_largest(struct scraper *s)
{
    struct scrape_work **largest = &s->work;
    for (struct scrape_work **link = &s->work; *link; link = &(*link)->next)
        if ((*link)->n > (*largest)->n)
            largest = link;
    struct scrape_work *work = *largest;
    take_out(s, largest);
    snprintf(work->health.error, sizeof work->health.error,
             "the server is busy: %zu MiB of responses wait to be decoded; the largest was dropped",
             s->room >> 20);
    finish_state(work->state, &work->health);
    scrape_work_free(work);
}

// What decoding may take: what it took before, or what the size says. gzip ends with the size of
// its content; who lies there does so once.
static int64_t expected_cost(const struct scrape_state *state, const uint8_t *data, size_t n)
{
    size_t size = n;
    if (compress_is_gzip(data, n) && n >= 18) {
        const uint8_t *end = data + n - 4;
        size_t inside = end[0] | (size_t)end[1] << 8 | (size_t)end[2] << 16 | (size_t)end[3] << 24;
        size = inside > size ? inside : size;
    }
    int64_t cost = (int64_t)size * NS_PER_BYTE;
    return cost > state->cost ? cost : state->cost;
}

void scrape_queue(struct scraper *s, struct scrape_state *state, struct net_answer *answer,
                  const struct scrape_health *health)
{
    struct scrape_work *work = calloc(1, sizeof *work);
    pthread_mutex_lock(&s->lock);
    if (!work) {
        struct scrape_health failed = *health;
        snprintf(failed.error, sizeof failed.error, "out of memory");
        finish_state(state, &failed);
        pthread_mutex_unlock(&s->lock);
        return;
    }
    *work = (struct scrape_work){
        .next = s->work,
        .state = state,
        .generation = s->generation,
        .target = state->target,
        .data = answer->data,
        .n = answer->n,
        .cost = expected_cost(state, answer->data, answer->n),
        .health = *health,
    };
    answer->data = NULL;
    s->generation->refs++;
    s->work = work;
    s->waiting += work->n;
    while (s->waiting > s->room)
        drop_largest(s);
    pthread_cond_broadcast(&s->ready);
    pthread_mutex_unlock(&s->lock);
}

static struct scrape_work *next_work(struct scraper *s, bool only_cheap)
{
    struct scrape_work **best = NULL;
    for (struct scrape_work **link = &s->work; *link; link = &(*link)->next) {
        if (only_cheap && (*link)->cost > CHEAP)
            continue;
        if (!best || (*link)->cost <= (*best)->cost) // of equals, the one that waits longest
            best = link;
    }
    struct scrape_work *work = best ? *best : NULL;
    if (work)
        take_out(s, best);
    return work;
}

// The limits of one profile: its memory is the tenant's until it is stored.
struct allowance {
    struct budget budget;
    struct tenant *tenant;
};

static struct allowance *allowance_new(const struct server *s, struct str tenant)
{
    struct allowance *a = calloc(1, sizeof *a);
    if (!a || !(a->tenant = tenants_get(tenant))) {
        free(a);
        return NULL;
    }
    a->budget.account.owner = "a scraped profile";
    a->budget.account.parent = &a->tenant->owner.account;
    a->budget.account.limit = PROFILE_FACTOR * s->config->limits.profile + ((size_t)16 << 20);
    a->budget.deadline = scrape_now() + DECODE_SECONDS * SECOND;
    return a;
}

static void allowance_free(void *allowance)
{
    struct allowance *a = allowance;
    tenants_release(NULL, &a->tenant->owner);
    free(a);
}

// Without the lock. The budget is seen by scraper_stop while the answer is decoded.
static int decode_and_store(struct scrape_taker *taker, struct scrape_work *work, struct err *e)
{
    struct scraper *s = taker->scraper;
    struct allowance *allowance = allowance_new(s->server, work->target->tenant);
    struct scrape_taken taken;
    if (!allowance)
        return err_set(e, "out of memory");
    struct budget *budget = &allowance->budget;
    pthread_mutex_lock(&s->lock);
    taker->budget = budget;
    budget->cancelled = s->stop;
    pthread_mutex_unlock(&s->lock);
    struct str data = {work->n ? (char *)work->data : "", work->n};
    int result = budget_take(budget, work->n) ? budget_explain(budget, e) : 0;
    if (!result) {
        result =
            scrape_read(s->server, work->target, data, &work->state->memory, budget, &taken, e);
        budget_release(&budget->account, work->n);
    }
    pthread_mutex_lock(&s->lock);
    taker->budget = NULL;
    pthread_mutex_unlock(&s->lock);
    if (result) {
        if (budget->failed == BUDGET_LATE)
            err_set(e, "the profile takes more than %d s to decode", DECODE_SECONDS);
        allowance_free(allowance);
        return result;
    }
    return scrape_store(s->server, work->target, &taken, allowance_free, allowance, e);
}

void *scrape_decode(void *context)
{
    struct scrape_taker *taker = context;
    struct scraper *s = taker->scraper;
    bool only_cheap = taker != &s->takers[0];
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        struct scrape_work *work = next_work(s, only_cheap);
        if (!work) {
            pthread_cond_wait(&s->ready, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        struct err e = {""};
        // CPU time: on a busy machine everything takes long.
        uint64_t begun = process_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        int result = decode_and_store(taker, work, &e);
        uint64_t cost = process_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
        if (result)
            snprintf(work->health.error, sizeof work->health.error, "%.250s", e.message);
        work->health.up = !result;
        pthread_mutex_lock(&s->lock);
        // A target that was expensive once is not trusted at once.
        int64_t before = work->state->cost / 4 * 3;
        work->state->cost = (int64_t)cost > before ? (int64_t)cost : before;
        finish_state(work->state, &work->health);
        scrape_work_free(work);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
