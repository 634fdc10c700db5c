#include "cli/measure.h"

#include <math.h>
#include <time.h>

#include "cli/profiled.h"

// Detects statically linked programs, which are not profiled; one may hide behind a shell.
static int check_profiled_share(const struct supervise *child, const struct model_profile *cpu,
                                struct err *e)
{
    const double little = 0.05, most = 0.5;
    double seen = 0, used = child->own_cpu + child->children_cpu;
    for (size_t i = 0; i < cpu->n_samples; i++)
        seen += (double)model_values(cpu, i)[cpu->n_types - 1] / 1e9;
    if (used < little || seen >= most * used)
        return 0;
    return err_set(e,
                   "only %.2f of %.2f s of CPU time were profiled; kiln cannot profile statically "
                   "linked programs and those of other users",
                   seen, used);
}

static int take_profiles(struct profiled *p, struct measured *m, struct arena *arena, struct err *e)
{
    struct arena_trap trap;
    if (harvest_dead(p->harvest, e))
        return -1;
    harvest_count(p->harvest, &p->totals);
    if (p->totals.processes == 0)
        return err_set(e, "%s: no profile: libkiln was not loaded into the program", p->program[0]);
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    m->cpu = profiled_add_names(p, harvest_profile(p->harvest, 0, arena, e), arena, e);
    if (m->cpu && p->heap)
        m->heap = profiled_add_names(p, harvest_heap(p->harvest, arena, e), arena, e);
    arena_try_end(arena);
    if (!m->cpu || (p->heap && !m->heap))
        return -1;
    return check_profiled_share(&p->child, m->cpu, e);
}

static double measure_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// Returns -1 and fills e after an interrupt or a timeout. Kills leftover processes, so that they do
// not disturb other runs.
static int wait_for_run_end(struct profiled *p, int timeout, struct err *e)
{
    enum { LOOK_MS = 1000, LAST_LOOKS_MS = 100 };
    const double grace = 2; // time to exit after an interrupt, which was forwarded
    double end = timeout > 0 ? measure_now() + timeout : INFINITY;
    bool interrupted = false, late = false;
    while (!late) {
        double look = p->child.ended || interrupted ? LAST_LOOKS_MS : LOOK_MS;
        if (profiled_wait(p, (int)fmax(fmin(look, ceil(1000 * (end - measure_now()))), 0)))
            break;
        if (p->child.interrupted && !interrupted) {
            interrupted = true;
            end = fmin(end, measure_now() + grace);
        }
        late = measure_now() >= end;
    }
    supervise_kill(&p->child);
    profiled_end(p);
    if (p->child.interrupted)
        return err_set(e, "interrupted");
    return late ? err_set(e, "still running after %d s (--timeout); it was killed", timeout) : 0;
}

int measure_run(const struct measure_wish *wish, struct arena *arena, struct measured *m,
                struct err *e)
{
    struct profiled p = profiled_default();
    int error;
    p.program = wish->program;
    if (wish->frequency)
        p.frequency = wish->frequency;
    p.heap = wish->heap;
    p.notes = wish->notes;
    p.follow = true;
    p.how = SUPERVISE_APART;
    *m = (struct measured){0};
    if (profiled_find_libraries(&p, e))
        return -1;
    int result = profiled_start(&p, &error, e);
    if (result == 0)
        result = wait_for_run_end(&p, wish->timeout, e);
    if (result == 0) {
        m->status = supervise_status(&p.child);
        m->peak = p.child.peak;
        result = m->status ? 0 : take_profiles(&p, m, arena, e);
        m->used = p.child.used - p.totals.own;
    }
    profiled_free(&p);
    return result;
}
