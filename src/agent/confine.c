#include "agent/confine.h"

#include <stdatomic.h>

#include "agent/journal/journal.h"
#include "capture/capture.h"
#include "process/own_threads.h"
#include "process/sandbox.h"

static _Atomic(const struct confine_hooks *) hooks;
static bool sampling_stopped;

void confine_set_hooks(const struct confine_hooks *h)
{
    atomic_store(&hooks, h);
}

static void before_confinement(const struct sandbox_verdict *verdict, bool all)
{
    const struct confine_hooks *h = atomic_load(&hooks);
    if (!verdict->again) {
        capture_before_confinement();
        journal_before_confinement();
    }
    if (all) {
        if (h && !verdict->again)
            h->last_chance_to_write();
        own_threads_park();
        // `kiln run` reads samples from outside of the process, so handlers may continue.
        sampling_stopped = capture_running() && (verdict->kills_handler || !journal_is_open());
        if (sampling_stopped)
            capture_end();
        return;
    }
    if (h && verdict->kills_wait)
        h->write_regularly();
    if (verdict->kills_handler)
        capture_leave_out_self();
}

static void after_failed_confinement(void)
{
    own_threads_release();
    if (sampling_stopped)
        capture_resume();
    sampling_stopped = false;
}

__attribute__((constructor)) static void watch_sandboxes(void)
{
    sandbox_on_confinement(before_confinement, after_failed_confinement);
}
