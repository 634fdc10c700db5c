// Queues and workers of the lanes. Within a lane, owners take turns. The requests of one owner are
// processed in order, and one owner cannot occupy all workers.
//
// A lane has few workers while requests are short. It gets more when all are busy, so that short
// requests share the CPU with long ones instead of waiting for them. Long requests run a few at a
// time and take turns too, at the places where they check their deadline. So there are never many
// threads that compete for the CPU. (Priorities would also apply to other processes: on a busy
// machine, a long query would hardly run at all.)
//
// libmicrohttpd's thread must not wait for workers, which may be delayed on a busy machine. So it
// takes none of their locks but puts requests into an inbox. The sweeper starts workers, because
// nobody waits for it.
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "net/web_server.h"

enum {
    QUEUE_MAX = 4096,    // waiting requests per lane
    QUEUE_SHARE = 3072,  // of one owner among them
    IDLE_SECONDS = 10,   // after this time without work, an additional worker ends
    LONG_NS = 250000000, // longer requests take turns
    TURN_NS = 20000000,
    WAIT_NS = 5000000, // between deadline checks while waiting for a turn
    JOIN_US = 2000,
};

// Queries leave the CPU to ingestion and health checks.
static const int niceness[WEB_LANES] = {[WEB_LANE_QUERY] = 3};

struct web_worker {
    struct web_server *server;
    enum web_lane lane;
    int64_t busy_since;
    int64_t turn_end; // 0: it has no turn
};

static _Thread_local struct web_worker *current_worker;

// --- turns; the lane's lock is held ---

static void queue_request(struct web_lane_queue *lane, enum web_lane which, struct web_request *r)
{
    struct web_turn *turn = &r->x.owner->turns[which];
    if (!turn->first)
        turn->last = &turn->first;
    r->next = NULL;
    *turn->last = r;
    turn->last = &r->next;
    if (!turn->listed) {
        turn->listed = true;
        turn->next = NULL;
        *lane->last = r->x.owner;
        lane->last = &turn->next;
    }
}

static void empty_inbox(struct web_lane_queue *lane, enum web_lane which)
{
    struct web_request *latest = atomic_exchange(&lane->inbox, NULL), *oldest = NULL;
    while (latest) {
        struct web_request *next = latest->next;
        latest->next = oldest;
        oldest = latest;
        latest = next;
    }
    while (oldest) {
        struct web_request *next = oldest->next;
        queue_request(lane, which, oldest);
        oldest = next;
    }
}

// Takes the next request whose owner may use one more worker.
static struct web_request *dequeue_lane_request(struct web_lane_queue *lane, enum web_lane which)
{
    unsigned most = lane->most_workers - lane->most_workers / 4;
    for (struct web_owner **at = &lane->first; *at; at = &(*at)->turns[which].next) {
        struct web_owner *owner = *at;
        struct web_turn *turn = &owner->turns[which];
        if (turn->running >= most)
            continue;
        struct web_request *r = turn->first;
        turn->first = r->next;
        if (!turn->first)
            turn->last = &turn->first;
        // Move the owner to the end, or remove it.
        *at = turn->next;
        if (!*at)
            lane->last = at;
        turn->next = NULL;
        turn->listed = turn->first != NULL;
        if (turn->listed) {
            *lane->last = owner;
            lane->last = &turn->next;
        }
        turn->running++;
        turn->queued--;
        lane->queued--;
        lane->running++;
        return r;
    }
    return NULL;
}

// --- turns of long requests ---

static void end_turn(struct web_worker *w)
{
    if (w->turn_end)
        sem_post(&w->server->turns);
    w->turn_end = 0;
}

static void rest_worker(struct budget *b)
{
    (void)b;
    if (current_worker)
        end_turn(current_worker);
}

// Called at deadline checks. Only the worker takes turns; other threads of the request are not
// paused.
static void wait_for_turn(struct budget *b)
{
    struct web_worker *w = current_worker;
    int64_t now = w ? budget_now() : 0;
    if (!w || now - w->busy_since < LONG_NS ||
        (w->turn_end && (now < w->turn_end || !w->server->waiting_turns)))
        return;
    struct web_server *s = w->server;
    bool had_turn = w->turn_end;
    end_turn(w);
    s->waiting_turns++;
    if (had_turn) // let a waiting thread get it
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS / 5}, NULL);
    do {
        int64_t until = budget_now() + WAIT_NS;
        struct timespec t = {until / 1000000000, until % 1000000000};
        if (sem_clockwait(&s->turns, CLOCK_MONOTONIC, &t) == 0)
            w->turn_end = budget_now() + TURN_NS;
    } while (!w->turn_end && budget_check(b) == BUDGET_OK);
    s->waiting_turns--;
}

// --- workers ---

// Called without the lane's lock.
static void do_request(struct web_worker *w, struct web_request *r)
{
    struct web_server *s = w->server;
    struct web_lane_queue *lane = &s->lanes[w->lane];
    struct web_owner *owner = r->x.owner;
    // After handling, the request and its owner may be freed.
    s->o.hold(s->o.context, owner);
    w->busy_since = budget_now();
    r->x.budget.pause = wait_for_turn;
    r->x.budget.rest = rest_worker;
    bool late = budget_check(&r->x.budget) != BUDGET_OK;
    (late ? s->o.late : s->o.handle)(s->o.context, &r->x);
    end_turn(w);
    pthread_mutex_lock(&lane->lock);
    owner->turns[w->lane].running--;
    lane->running--;
    // The owner's next request may have been waiting for this worker.
    bool waits = owner->turns[w->lane].listed;
    pthread_mutex_unlock(&lane->lock);
    if (waits)
        sem_post(&lane->work);
    s->o.release(s->o.context, owner);
}

static struct web_request *next_request(struct web_worker *w, bool *ends, bool waited)
{
    struct web_server *s = w->server;
    struct web_lane_queue *lane = &s->lanes[w->lane];
    pthread_mutex_lock(&lane->lock);
    empty_inbox(lane, w->lane);
    struct web_request *r = dequeue_lane_request(lane, w->lane);
    *ends = !r && (s->ending || (waited && lane->n_workers > lane->least_workers));
    lane->n_workers -= *ends;
    pthread_mutex_unlock(&lane->lock);
    return r;
}

// Returns NULL if the worker is no longer needed.
static struct web_request *wait_for_work(struct web_worker *w)
{
    struct web_lane_queue *lane = &w->server->lanes[w->lane];
    int64_t until = budget_now() + IDLE_SECONDS * INT64_C(1000000000);
    struct timespec t = {until / 1000000000, until % 1000000000};
    bool ends = false;
    // Take first the token, then the request. In the opposite order, the token may belong to a
    // request that arrived meanwhile, and that request would have no worker.
    struct web_request *r = sem_trywait(&lane->work) == 0 ? next_request(w, &ends, false) : NULL;
    if (r || ends)
        return r;
    lane->idle++;
    while (!r && !ends) {
        bool waited = sem_clockwait(&lane->work, CLOCK_MONOTONIC, &t) && errno == ETIMEDOUT;
        r = next_request(w, &ends, waited);
        if (waited)
            t.tv_sec += IDLE_SECONDS;
    }
    lane->idle--;
    return r;
}

static void *work_lane(void *context)
{
    struct web_worker *w = current_worker = context;
    struct web_lane_queue *lane = &w->server->lanes[w->lane];
    if (niceness[w->lane])
        setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), niceness[w->lane]);
    for (struct web_request *r; (r = wait_for_work(w));)
        do_request(w, r);
    free(w);
    lane->n_threads--; // the last use of the server
    return NULL;
}

// Returns -1 if the thread could not be started.
static int start_worker(struct web_server *s, enum web_lane which)
{
    struct web_lane_queue *lane = &s->lanes[which];
    struct web_worker *w = calloc(1, sizeof *w);
    pthread_t thread;
    pthread_attr_t attributes;
    if (!w)
        return -1;
    *w = (struct web_worker){.server = s, .lane = which};
    lane->n_workers++;
    lane->n_threads++;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int failed = pthread_create(&thread, &attributes, work_lane, w);
    pthread_attr_destroy(&attributes);
    if (!failed)
        return 0;
    lane->n_workers--;
    lane->n_threads--;
    free(w);
    return -1;
}

void web_lanes_grow(struct web_server *s)
{
    for (enum web_lane i = 0; i < WEB_LANES; i++) {
        struct web_lane_queue *lane = &s->lanes[i];
        while (lane->queued > lane->idle && lane->n_workers < lane->most_workers && !s->ending &&
               !start_worker(s, i))
            ;
    }
}

bool web_lanes_add(struct web_server *s, struct web_request *r)
{
    struct web_lane_queue *lane = &s->lanes[r->x.lane];
    struct web_turn *turn = &r->x.owner->turns[r->x.lane];
    // Count it first, because web_stop waits for this counter.
    s->handling++;
    if (s->stopping || lane->queued >= QUEUE_MAX || turn->queued >= QUEUE_SHARE) {
        s->handling--;
        return false;
    }
    lane->queued++;
    turn->queued++;
    r->next = lane->inbox;
    while (!atomic_compare_exchange_weak(&lane->inbox, &r->next, r))
        ;
    sem_post(&lane->work);
    if (lane->idle < lane->queued && lane->n_workers < lane->most_workers)
        sem_post(&s->wake);
    return true;
}

int web_lanes_start(struct web_server *s)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    sem_init(&s->turns, 0, processors > 0 ? (unsigned)processors : 1);
    for (enum web_lane i = 0; i < WEB_LANES; i++) {
        struct web_lane_queue *lane = &s->lanes[i];
        lane->last = &lane->first;
        sem_init(&lane->work, 0, 0);
        pthread_mutex_init(&lane->lock, NULL);
        lane->least_workers = s->o.workers[i];
        lane->most_workers = i == WEB_LANE_QUERY    ? s->o.workers[i] * 8
                             : i == WEB_LANE_INGEST ? s->o.workers[i] * 4
                                                    : s->o.workers[i];
    }
    for (enum web_lane i = 0; i < WEB_LANES; i++)
        while (s->lanes[i].n_workers < s->lanes[i].least_workers)
            if (start_worker(s, i))
                return -1;
    return 0;
}

void web_lanes_join(struct web_server *s)
{
    for (enum web_lane i = 0; i < WEB_LANES; i++)
        while (s->lanes[i].n_threads) {
            sem_post(&s->lanes[i].work);
            usleep(JOIN_US);
        }
}
