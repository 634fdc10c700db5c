#include <stdio.h>

#include "cli/check.h"
#include "cli/measure.h"
#include "model/transform.h"

enum { MOST_RUNS = 1000 };

struct runner {
    struct call *call;
    size_t n; // runs of each command
    struct model_profile **cpu[2], **heap[2];
    struct stats_cell *times, *peaks;
};

static int run_side(const struct runner *r, int side, size_t number, struct err *e)
{
    const struct call *call = r->call;
    const char *command = side ? call->run : call->against;
    char *shell[] = {"/bin/sh", "-c", (char *)command, NULL};
    struct measure_wish wish = {shell, call->frequency, call->heap, call->source.timeout,
                                call->source.notes};
    struct measured m;
    if (measure_run(&wish, call->arena, &m, e))
        return err_prefix(e, "%s: ", command);
    if (m.status)
        return err_set(e, "%s: run %zu ended with exit status %d; nothing was compared", command,
                       number + 1, m.status);
    r->cpu[side][number] = m.cpu;
    r->heap[side][number] = m.heap;
    size_t place = (side ? r->n : 0) + number;
    r->times[place].value = (double)m.used;
    r->peaks[place].value = (double)m.peak;
    return 0;
}

// Baseline, change, change, baseline: what drifts meanwhile meets both alike. One run of each comes
// first and is not counted, because it fills the caches.
static int run_in_turns(const struct runner *r, struct err *e)
{
    for (size_t i = 0; i <= r->n; i++) {
        int first = (int)(i % 2);
        size_t number = i ? i - 1 : 0;
        if (run_side(r, first, number, e) || run_side(r, !first, number, e))
            return -1;
    }
    return 0;
}

static int gather_runs(const struct runner *r, struct model_profile **const of[2],
                       struct diff_sides *sides, struct err *e)
{
    struct arena *arena = r->call->arena;
    size_t runs = r->n;
    struct model_profile **all = arena_array(arena, 2 * runs, sizeof *all);
    for (size_t i = 0; i < 2 * runs; i++)
        all[i] = of[i / runs][i % runs];
    *sides = (struct diff_sides){
        .profiles = (const struct model_profile **)all, .n = {runs, runs}, .cap = 2 * runs};
    return model_make_compatible(all, 2 * runs, arena, e);
}

int check_run_commands(struct call *call, struct check_runs *runs, struct err *e)
{
    struct runner r = {.call = call, .n = (size_t)call->runs};
    bool has_peaks = true;
    if (!*call->against || call->n_arguments)
        return err_set(e,
                       "--run compares two commands: kiln check --run COMMAND --against COMMAND");
    if (call->runs < 2 || call->runs > MOST_RUNS)
        return err_set(e, "invalid --runs %d; expected 2 to %d", call->runs, MOST_RUNS);
    if (call->source.timeout != -1 && call->source.timeout < 1)
        return err_set(e, "invalid --timeout %d; expected at least 1 second", call->source.timeout);
    r.times = arena_array(call->arena, 2 * r.n, sizeof *r.times);
    r.peaks = arena_array(call->arena, 2 * r.n, sizeof *r.peaks);
    for (int side = 0; side < 2; side++) {
        r.cpu[side] = arena_array(call->arena, r.n, sizeof *r.cpu[side]);
        r.heap[side] = arena_array(call->arena, r.n, sizeof *r.heap[side]);
    }
    if (run_in_turns(&r, e) || gather_runs(&r, r.cpu, &runs->cpu, e))
        return -1;
    for (size_t i = 0; i < 2 * r.n; i++)
        has_peaks &= r.peaks[i].value > 0;
    runs->times = r.times;
    runs->peaks = has_peaks ? r.peaks : NULL;
    runs->is_command = true;
    return call->heap ? gather_runs(&r, r.heap, &runs->heap, e) : 0;
}
