#include "store/commit_queue.h"

#include <stdlib.h>

// A tenant with queued or committing requests.
struct waiting_tenant {
    char name[151];
    size_t bytes, n;
    size_t taken[2]; // cost in the current batch: of new requests, of retried ones
    int64_t newest;  // newest queued day of whole requests
    uint64_t turn;   // number of its last turn
    struct waiting_tenant *next;
};

// Returns NULL if the tenant has no requests.
static struct waiting_tenant *find_tenant(const struct commit_queue *q, struct str name)
{
    struct waiting_tenant *t = q->tenants;
    while (t && !str_eq(str_from(t->name), name))
        t = t->next;
    return t;
}

// Like find_tenant, but creates the entry. Returns NULL if there is no memory.
static struct waiting_tenant *find_or_add_tenant(struct commit_queue *q, struct str name)
{
    struct waiting_tenant *t = find_tenant(q, name);
    if (t || !(t = calloc(1, sizeof *t)))
        return t;
    memcpy(t->name, name.p, name.n);
    t->next = q->tenants;
    q->tenants = t;
    q->n_tenants++;
    return t;
}

void commit_queue_forget(struct commit_queue *q, const struct store_request *r)
{
    struct waiting_tenant *t = r->tenant;
    q->bytes -= r->bytes;
    t->bytes -= r->bytes;
    if (--t->n)
        return;
    for (struct waiting_tenant **at = &q->tenants; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    q->n_tenants--;
    free(t);
}

void commit_queue_init(struct commit_queue *q, size_t limit)
{
    *q = (struct commit_queue){.limit = limit};
    q->last = &q->first;
}

// --- batches ---

// Maximum cost of a batch, in bytes of queued data: the next request waits about this long. A put
// takes time however small it is.
enum { BATCH_COST = 16 << 20, PUT_COST = 32 << 10 };

static size_t request_cost(const struct store_request *r)
{
    return r->bytes + r->n * PUT_COST;
}

static void begin_batch(struct commit_queue *q)
{
    for (struct waiting_tenant *t = q->tenants; t; t = t->next) {
        t->taken[0] = t->taken[1] = 0;
        t->newest = INT64_MIN;
    }
    for (const struct store_request *r = q->first; r; r = r->next)
        if (!r->is_part && r->last_day > r->tenant->newest)
            r->tenant->newest = r->last_day;
}

// Whether a request waits for its tenant's turn: each additional day is one more file to sync.
static bool waits_for_turn(const struct store_request *r)
{
    return r->is_part || r->first_day < r->tenant->newest - 1;
}

static bool has_shared_requests(const struct commit_queue *q)
{
    const struct store_request *r = q->first;
    while (r && waits_for_turn(r))
        r = r->next;
    return r;
}

// The first request of the tenant whose turn it is, or NULL.
static const struct store_request *find_turn(const struct commit_queue *q)
{
    const struct store_request *found = NULL;
    for (const struct store_request *r = q->first; r; r = r->next)
        if (waits_for_turn(r) && (!found || r->tenant->turn < found->tenant->turn))
            found = r;
    return found;
}

static size_t dequeue_commit_request(struct store_request **at, struct store_request **requests,
                                     size_t n)
{
    requests[n] = *at;
    *at = (*at)->next;
    return n + 1;
}

// Each tenant gets a share, so that a tenant with much data does not delay the others: a tenant's
// first request is taken if it fits the share, whatever was taken before. Retried requests have
// separate shares, because their days may still be locked.
static size_t take_shares(struct commit_queue *q, struct store_request **requests, size_t most)
{
    size_t n = 0, cost[2] = {0}, share = BATCH_COST / (q->n_tenants ? q->n_tenants : 1);
    struct store_request **at = &q->first;
    while (*at && n < most) {
        struct store_request *r = *at;
        bool later = r->later != 0;
        size_t *taken = &r->tenant->taken[later], after = *taken + request_cost(r);
        if (waits_for_turn(r) || (after > share && (*taken || cost[later] >= BATCH_COST))) {
            at = &r->next;
            continue;
        }
        *taken = after;
        cost[later] += request_cost(r);
        n = dequeue_commit_request(at, requests, n);
    }
    return n;
}

static bool is_day_of(int64_t day, const struct store_request *r)
{
    return day == r->first_day || day == r->last_day;
}

// Takes requests of one tenant with the days of one request.
static size_t take_tenant_turn(struct commit_queue *q, const struct store_request *like,
                               struct store_request **requests, size_t most)
{
    size_t n = 0, cost = 0;
    const struct store_request days = *like;
    struct waiting_tenant *tenant = like->tenant;
    for (struct store_request **at = &q->first; *at && n < most && cost < BATCH_COST;) {
        struct store_request *r = *at;
        if (r->tenant != tenant || !waits_for_turn(r) || !is_day_of(r->first_day, &days) ||
            !is_day_of(r->last_day, &days) || (cost && cost + request_cost(r) > BATCH_COST)) {
            at = &r->next;
            continue;
        }
        cost += request_cost(r);
        n = dequeue_commit_request(at, requests, n);
    }
    tenant->turn = ++q->turns;
    return n;
}

size_t commit_queue_take(struct commit_queue *q, struct store_request **requests, size_t most)
{
    begin_batch(q);
    const struct store_request *turn =
        q->turn_next || !has_shared_requests(q) ? find_turn(q) : NULL;
    size_t n = turn ? take_tenant_turn(q, turn, requests, most) : take_shares(q, requests, most);
    q->turn_next = !turn;
    for (q->last = &q->first; *q->last; q->last = &(*q->last)->next)
        ;
    q->n_waiting -= n;
    return n;
}

// How long a request is retried before it fails.
#define LATER_NANOS (INT64_C(10) * 1000000000)

size_t commit_queue_return(struct commit_queue *q, struct store_request **requests, size_t n,
                           int64_t now)
{
    struct store_request *again = NULL, **last = &again;
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        struct store_request *r = requests[i];
        if (r->code != STORE_LATER || (r->later && now - r->later > LATER_NANOS)) {
            r->code = r->code == STORE_LATER ? STORE_BUSY : r->code;
            requests[left++] = r;
            continue;
        }
        r->later = r->later ? r->later : now;
        r->code = 0;
        r->profiles = r->samples = r->repeated = 0;
        *last = r;
        last = &r->next;
        q->n_waiting++;
    }
    if (again && !q->turn_next) {
        *last = NULL;
        *q->last = again;
        q->last = last;
    } else if (again) {
        *last = q->first;
        q->first = again;
        for (q->last = last; *q->last; q->last = &(*q->last)->next)
            ;
    }
    return left;
}

bool commit_queue_is_full(const struct commit_queue *q, struct str tenant, size_t bytes,
                          struct err *e)
{
    size_t limit = q->limit, waiting = q->bytes;
    if (waiting <= limit / 2 || waiting + bytes <= limit)
        return false;
    const struct waiting_tenant *t = find_tenant(q, tenant);
    if ((t ? t->bytes : 0) + bytes <= limit / (q->n_tenants + (t ? 0 : 1)))
        return false;
    err_set(e,
            "the queue is full: %zu bytes wait to be stored, and %zu more would exceed the limit "
            "of %zu; try again in a second",
            waiting, bytes, limit);
    return true;
}

int commit_queue_add(struct commit_queue *q, struct str tenant, struct store_request *first,
                     struct err *e)
{
    size_t bytes = 0;
    for (struct store_request *r = first; r; r = r->next)
        bytes += r->bytes;
    if (commit_queue_is_full(q, tenant, bytes, e))
        return STORE_BUSY;
    struct waiting_tenant *t = find_or_add_tenant(q, tenant);
    if (!t) {
        err_set(e, "no memory for another profile");
        return STORE_BUSY;
    }
    t->bytes += bytes;
    q->bytes += bytes;
    *q->last = first;
    for (; *q->last; q->last = &(*q->last)->next) {
        (*q->last)->tenant = t;
        t->n++;
        q->n_waiting++;
    }
    return 0;
}
