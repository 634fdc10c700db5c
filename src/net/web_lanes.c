// Queues and workers of the lanes. Within a lane, owners take turns; each owner's requests are done
// in the order in which they came, and one owner cannot hold all workers.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <stdlib.h>

#include "net/web_server.h"

enum {
    QUEUE_MAX = 4096,   // requests of one lane that wait
    QUERY_NICENESS = 5, // queries leave the CPU to ingestion and to health checks
};

// The next request of the lane whose owner may have one more worker; lock is held.
static struct web_request *take_turn(struct web_lane_queue *lane, enum web_lane which)
{
    unsigned most = lane->n_workers > 1 ? lane->n_workers - 1 : 1;
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

struct worker {
    struct web_server *server;
    enum web_lane lane;
};

static void *work_lane(void *context)
{
    struct worker w = *(struct worker *)context;
    struct web_server *s = w.server;
    struct web_lane_queue *lane = &s->lanes[w.lane];
    free(context);
    if (w.lane == WEB_LANE_QUERY)
        setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), QUERY_NICENESS);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct web_request *r;
        while (!(r = take_turn(lane, w.lane)) && !s->ending)
            pthread_cond_wait(&lane->work, &s->lock);
        if (!r)
            break;
        pthread_mutex_unlock(&s->lock);
        // The request may be gone once it is handled, and its owner with it.
        struct web_owner *owner = r->x.owner;
        s->o.hold(s->o.context, owner);
        bool late = budget_check(&r->x.budget) != BUDGET_OK;
        (late ? s->o.late : s->o.handle)(s->o.context, &r->x);
        pthread_mutex_lock(&s->lock);
        owner->turns[w.lane].running--;
        lane->running--;
        // Its owner's next request may have waited for this worker only.
        if (owner->turns[w.lane].listed)
            pthread_cond_signal(&lane->work);
        pthread_mutex_unlock(&s->lock);
        s->o.release(s->o.context, owner);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

bool web_lanes_add(struct web_server *s, struct web_request *r)
{
    enum web_lane which = r->x.lane;
    struct web_lane_queue *lane = &s->lanes[which];
    struct web_turn *turn = &r->x.owner->turns[which];
    pthread_mutex_lock(&s->lock);
    bool taken = !s->stopping && lane->queued < QUEUE_MAX;
    if (taken) {
        if (!turn->last || !turn->first)
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
        pthread_cond_signal(&lane->work);
    }
    pthread_mutex_unlock(&s->lock);
    return taken;
}

int web_lanes_start(struct web_server *s)
{
    for (enum web_lane i = 0; i < WEB_LANES; i++) {
        struct web_lane_queue *lane = &s->lanes[i];
        lane->last = &lane->first;
        pthread_cond_init(&lane->work, NULL);
        lane->workers = calloc(s->o.workers[i], sizeof *lane->workers);
        for (unsigned k = 0; lane->workers && k < s->o.workers[i]; k++) {
            struct worker *w = malloc(sizeof *w);
            if (!w)
                return -1;
            *w = (struct worker){s, i};
            if (pthread_create(&lane->workers[k], NULL, work_lane, w)) {
                free(w);
                return -1;
            }
            lane->n_workers++;
        }
        if (!lane->n_workers)
            return -1;
    }
    return 0;
}

void web_lanes_join(struct web_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = s->ending = true;
    for (enum web_lane i = 0; i < WEB_LANES; i++)
        pthread_cond_broadcast(&s->lanes[i].work);
    pthread_mutex_unlock(&s->lock);
    for (enum web_lane i = 0; i < WEB_LANES; i++) {
        for (unsigned k = 0; k < s->lanes[i].n_workers; k++)
            pthread_join(s->lanes[i].workers[k], NULL);
        free(s->lanes[i].workers);
    }
}
