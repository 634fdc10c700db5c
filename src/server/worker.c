#include "server/worker.h"

#include "process/clock.h"
#include "server/server.h"

void worker_init(struct worker *w)
{
    pthread_mutex_init(&w->lock, NULL);
    process_condition_init(&w->changed);
}

void worker_interrupt(struct worker *w)
{
    if (w->interrupt)
        w->interrupt(w->context);
    pthread_cond_broadcast(&w->changed);
}

void worker_reload(struct worker *w, struct server_config *config, bool has_work)
{
    if (!has_work && !w->started)
        return;
    pthread_mutex_lock(&w->lock);
    server_config_free(w->pending);
    w->pending = server_config_share(config);
    worker_interrupt(w);
    pthread_mutex_unlock(&w->lock);
    if (!w->started)
        w->started = pthread_create(&w->thread, NULL, w->run, w->context) == 0;
    if (!w->started)
        server_log("error", w->failure, "component", w->component, "error", "cannot start a thread",
                   NULL);
}

void worker_stop(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    worker_interrupt(w);
    pthread_mutex_unlock(&w->lock);
    if (w->started)
        pthread_join(w->thread, NULL);
    w->started = false;
}

void worker_fini(struct worker *w)
{
    server_config_free(w->pending);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}
