#include "changes/look.h"

// Whether the two versions of an entry still run side by side, as far as this look knows.
static bool is_running(const struct look *l, const struct known *known, size_t i)
{
    return known->more[i].versions.label.n && known->more[i].high > l->end - 2 * l->window;
}

static int keep_report(struct look *l, const struct watched *w, struct known *known,
                       const struct stats_report *report, size_t *n, struct err *e)
{
    int code = look_begin(l, w, e);
    for (size_t i = 0; i < report->n_gone && !code; i++) {
        uint32_t at = report->gone[i];
        // A version that still runs has what it has, whatever the others do.
        if (!is_running(l, known, at))
            code = entries_update(l, known->more[at].id, known->more[at].high, l->end, e);
    }
    if (!code)
        code = entries_add(l, w, known, report->entries, report->n, NULL, n, e);
    return state_end(l->db, code, e);
}

static bool has_work(const struct stats_candidates *found, const struct known *known)
{
    bool lasting = false;
    for (size_t i = 0; i < known->n; i++)
        lasting = lasting || known->entries[i].verdict == STATS_LASTING;
    for (size_t i = 0; i < found->n; i++)
        if (found->items[i].step.gone ? lasting : found->items[i].q <= STATS_CHANGES_LEVEL)
            return true;
    return false;
}

int settle_series(struct look *l, const struct watched *w, const struct stats_candidates *found,
                  struct arena *arena, size_t *n, struct err *e)
{
    struct history h;
    struct known known;
    struct stats_report report;
    struct stacks_reader reader = {.look = l, .watched = w, .history = &h, .arena = arena};
    *n = 0;
    int code = entries_load(l, w, arena, &known, e);
    if (code || !has_work(found, &known))
        return code;
    code = windows_load(l, w, arena, &h, e);
    if (code || !h.n)
        return code;
    reader.frames = arena_array(arena, MAX_DEPTH, sizeof *reader.frames);
    struct stats_service service = {
        .history = {.n = h.n, .windows = h.windows, .lasting = l->c->options.lasting},
        .functions = h.functions,
        .n_functions = h.n_functions,
        .absolute = w->gauge,
        .stacks = range_stacks,
        .context = &reader,
    };
    stats_changes_settle(&service, found, known.entries, known.n, STATS_CHANGES_LEVEL, arena,
                         &report);
    return report.n || report.n_gone ? keep_report(l, w, &known, &report, n, e) : 0;
}
