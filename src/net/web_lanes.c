// Queues and workers of the lanes. Within a lane, owners take turns; each owner's requests are done
// in the order in which they came, and one owner cannot hold all workers.
//
// A lane has few workers while its work is short, and gets more when all of them are busy: work
// that is short then shares the CPU with work that is long instead of waiting for it. A worker
// whose request takes long gets less of the CPU; since only a privileged process can take that
// back, such a worker ends with its request.
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "net/web_server.h"

enum {
    QUEUE_MAX = 4096,  // requests of one lane that wait
    IDLE_SECONDS = 10, // an additional worker waits for work before it ends
    LONG_NS = 250000000,
    LONG_NICENESS = 8,
};

// Queries leave the CPU to ingestion and to health checks.
static const int niceness[WEB_LANES] = {[WEB_LANE_QUERY] = 3};

struct web_worker {
    struct web_worker *next, **link;
    struct web_server *server;
    enum web_lane lane;
    pid_t tid;
    int64_t busy_since; // 0: idle
    bool demoted;
};

// The next request of the lane whose owner may have one more worker; lock is held.
static struct web_request *take_turn(struct web_lane_queue *lane, enum web_lane which)
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
        // To the end of the line, or out of it.
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
        lane->queued--;
        lane->running++;
        return r;
    }
    return NULL;
}

// lock is held on entry and on return.
static void do_request(struct web_worker *w, struct web_request *r)
{
    struct web_server *s = w->server;
    struct web_lane_queue *lane = &s->lanes[w->lane];
    struct web_owner *owner = r->x.owner;
    w->busy_since = budget_now();
    pthread_mutex_unlock(&s->lock);
    // The request may be gone once it is handled, and its owner with it.
    s->o.hold(s->o.context, owner);
    bool late = budget_check(&r->x.budget) != BUDGET_OK;
    (late ? s->o.late : s->o.handle)(s->o.context, &r->x);
    pthread_mutex_lock(&s->lock);
    w->busy_since = 0;
    owner->turns[w->lane].running--;
    lane->running--;
    // Its owner's next request may have waited for this worker only.
    if (owner->turns[w->lane].listed)
        pthread_cond_signal(&lane->work);
    pthread_mutex_unlock(&s->lock);
    s->o.release(s->o.context, owner);
    pthread_mutex_lock(&s->lock);
}

// The next request; NULL: the worker is not needed any more. lock is held.
static struct web_request *wait_for_work(struct web_worker *w)
{
    struct web_server *s = w->server;
    struct web_lane_queue *lane = &s->lanes[w->lane];
    int64_t until = budget_now() + IDLE_SECONDS * INT64_C(1000000000);
    struct timespec t = {until / 1000000000, until % 1000000000};
    struct web_request *r;
    lane->idle++;
    while (!(r = take_turn(lane, w->lane)) && !s->ending &&
           (lane->n_workers <= lane->least_workers || budget_now() < until))
        pthread_cond_timedwait(&lane->work, &s->lock, &t);
    lane->idle--;
    return r;
}

static void *work_lane(void *context)
{
    struct web_worker *w = context;
    struct web_server *s = w->server;
    struct web_lane_queue *lane = &s->lanes[w->lane];
    w->tid = (pid_t)syscall(SYS_gettid);
    if (niceness[w->lane])
        setpriority(PRIO_PROCESS, (id_t)w->tid, niceness[w->lane]);
    pthread_mutex_lock(&s->lock);
    for (struct web_request *r; !w->demoted && (r = wait_for_work(w));)
        do_request(w, r);
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    lane->n_workers--;
    // Others may wait in the queue, for which this one was too slow.
    if (w->demoted && lane->queued && !s->ending)
        web_lanes_grow(s, w->lane);
    if (!lane->n_workers)
        pthread_cond_broadcast(&s->sweep);
    pthread_mutex_unlock(&s->lock);
    free(w);
    return NULL;
}

void web_lanes_grow(struct web_server *s, enum web_lane which)
{
    struct web_lane_queue *lane = &s->lanes[which];
    struct web_worker *w = lane->n_workers < lane->most_workers ? calloc(1, sizeof *w) : NULL;
    if (!w)
        return;
    *w = (struct web_worker){.server = s, .lane = which};
    sigset_t all, old;
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&thread, &attributes, work_lane, w)) {
        free(w);
    } else {
        lane->n_workers++;
        w->next = s->workers;
        w->link = &s->workers;
        if (w->next)
            w->next->link = &w->next;
        s->workers = w;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
}

void web_lanes_demote(struct web_server *s, int64_t now)
{
    for (struct web_worker *w = s->workers; w; w = w->next)
        if (w->busy_since && now - w->busy_since > LONG_NS && !w->demoted && w->tid &&
            w->lane != WEB_LANE_STATUS) {
            setpriority(PRIO_PROCESS, (id_t)w->tid, LONG_NICENESS);
            w->demoted = true;
        }
}

bool web_lanes_add(struct web_server *s, struct web_request *r)
{
    enum web_lane which = r->x.lane;
    struct web_lane_queue *lane = &s->lanes[which];
    struct web_turn *turn = &r->x.owner->turns[which];
    pthread_mutex_lock(&s->lock);
    bool taken = !s->stopping && lane->queued < QUEUE_MAX;
    if (taken) {
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
        lane->queued++;
        s->handling++;
        if (lane->idle < lane->queued)
            web_lanes_grow(s, which);
        pthread_cond_signal(&lane->work);
    }
    pthread_mutex_unlock(&s->lock);
    return taken;
}

int web_lanes_start(struct web_server *s)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_lock(&s->lock);
    bool all = true;
    for (enum web_lane i = 0; i < WEB_LANES; i++) {
        struct web_lane_queue *lane = &s->lanes[i];
        lane->last = &lane->first;
        pthread_cond_init(&lane->work, &attributes);
        lane->least_workers = s->o.workers[i];
        lane->most_workers = i == WEB_LANE_QUERY    ? s->o.workers[i] * 8
                             : i == WEB_LANE_INGEST ? s->o.workers[i] * 4
                                                    : s->o.workers[i];
        while (all && lane->n_workers < lane->least_workers) {
            unsigned before = lane->n_workers;
            web_lanes_grow(s, i);
            all = lane->n_workers > before;
        }
    }
    pthread_mutex_unlock(&s->lock);
    pthread_condattr_destroy(&attributes);
    return all ? 0 : -1;
}

void web_lanes_join(struct web_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = s->ending = true;
    for (enum web_lane i = 0; i < WEB_LANES; i++)
        pthread_cond_broadcast(&s->lanes[i].work);
    while (s->workers)
        pthread_cond_wait(&s->sweep, &s->lock);
    pthread_mutex_unlock(&s->lock);
}
