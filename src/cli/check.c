// kiln check: exit status 1 if something got worse beyond noise and budget.
#include "cli/check.h"

#include <math.h>

#include "cli/flame.h"
#include "cli/output.h"
#include "cli/view.h"
#include "model/transform.h"

// A gate that fails for no reason is soon ignored: stricter than a table that a person reads.
static const double gate_level = 0.01;

struct check_item *check_add(struct check *c, struct check_item item)
{
    c->items = arena_push(c->arena, c->items, c->n, &c->cap, sizeof *c->items);
    c->items[c->n] = item;
    c->n_by_verdict[item.verdict]++;
    return &c->items[c->n++];
}

enum check_verdict check_outcome(const struct check *c)
{
    return c->n_by_verdict[CHECK_FAILED]      ? CHECK_FAILED
           : c->n_by_verdict[CHECK_UNDECIDED] ? CHECK_UNDECIDED
                                              : CHECK_PASSED;
}

// --- judging ---

// The profiles per side with which the interval would probably leave the budget out.
static size_t profiles_needed(const struct diff_change *c, double allowed, size_t n)
{
    double distance = fabs(allowed - c->change);
    double needed = distance > 0 ? (double)n * pow(c->half_width / distance, 2) : INFINITY;
    return needed < 1e6 ? (size_t)ceil(fmax(needed, (double)n + 1)) : SIZE_MAX;
}

static void judge_total(struct check *c, struct check_item item)
{
    const struct diff_change *d = &item.change;
    double allowed = item.budget * d->before;
    size_t n = c->n_profiles[0] < c->n_profiles[1] ? c->n_profiles[0] : c->n_profiles[1];
    if (n < 2) {
        item.verdict = CHECK_UNDECIDED;
    } else if (d->change - d->half_width > allowed) {
        item.verdict = CHECK_FAILED;
    } else if (d->change + d->half_width > allowed) {
        item.verdict = CHECK_UNDECIDED;
        item.needed = profiles_needed(d, allowed, n);
    }
    check_add(c, item);
}

// A culprit: what grew is not what it calls.
static void judge_function(struct check *c, const struct check_budget *budget, const struct diff *d,
                           const struct stats_function *row)
{
    bool by_total = row->total.mark == STATS_CHANGED;
    struct diff_change change = diff_change(d, by_total ? &row->total : &row->self);
    if (change.mark != STATS_CHANGED)
        return;
    if (change.change <= 0) {
        c->n_improved++;
        return;
    }
    struct check_allowance a = check_budget_function(budget, d->type, row->name);
    if (change.change <= a.growth * change.before || change.change < a.share * diff_total(d).before)
        return;
    check_add(c, (struct check_item){.type = d->type,
                                     .unit = d->unit,
                                     .function = row->name,
                                     .change = change,
                                     .budget = a.growth,
                                     .verdict = CHECK_FAILED});
}

static int compare_type(struct check *c, const struct check_budget *budget,
                        const struct diff_sides *sides, const char *type, const struct call *call,
                        struct err *e)
{
    struct diff d = {.level = c->level};
    struct config config = call->config;
    struct arena_trap trap;
    config.sample_index = type;
    if (diff_count(&d, sides, &config, c->arena, call_note, e))
        return -1;
    if (ARENA_TRY(c->arena, trap))
        return arena_caught(c->arena, e);
    judge_total(c, (struct check_item){.type = d.type,
                                       .unit = d.unit,
                                       .change = diff_total(&d),
                                       .budget = check_budget_total(budget, d.type)});
    for (size_t i = 0; i < d.functions.n; i++)
        judge_function(c, budget, &d, &d.functions.rows[i]);
    arena_try_end(c->arena);
    return 0;
}

// Every type that has a cost of its own; counts of samples and objects follow the others.
static int compare_types(struct check *c, const struct check_budget *budget,
                         const struct diff_sides *sides, const struct call *call, struct err *e)
{
    static const char *const costs[] = {"cpu", "wall", "alloc_space", "inuse_space"};
    const struct model_profile *p = sides->profiles[0];
    bool any = false;
    if (*call->config.sample_index)
        return compare_type(c, budget, sides, call->config.sample_index, call, e);
    for (size_t k = 0; k < sizeof costs / sizeof *costs; k++)
        for (uint32_t i = 0; i < p->n_types; i++)
            if (str_eq(model_str(p, p->types[i].type), str_from(costs[k]))) {
                any = true;
                if (compare_type(c, budget, sides, costs[k], call, e))
                    return -1;
            }
    return any ? 0 : compare_type(c, budget, sides, "", call, e);
}

// The largest memory of each run, which no profile has.
static int compare_peaks(struct check *c, const struct check_budget *budget, const double *peaks,
                         struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(c->arena, trap))
        return arena_caught(c->arena, e);
    size_t n = c->n_profiles[0] + c->n_profiles[1];
    struct stats_cell *cells = arena_array(c->arena, n + 1, sizeof *cells);
    for (size_t i = 0; i < n; i++)
        cells[i] = (struct stats_cell){.value = peaks[i]};
    struct stats_rows rows = {
        .n = 1, .n_profiles = {c->n_profiles[0], c->n_profiles[1]}, .cells = cells};
    struct stats_fit fit;
    stats_fit(&rows, c->arena, &fit);
    struct stats_change s = stats_test_total(&rows, &fit, c->arena);
    judge_total(c, (struct check_item){
                       .type = STR("peak_memory"),
                       .unit = STR("bytes"),
                       .change = {.before = s.before,
                                  .after = s.after,
                                  .change = s.after - s.before,
                                  .half_width = s.half_width},
                       .budget = check_budget_total(budget, STR("peak_memory")),
                   });
    arena_try_end(c->arena);
    return 0;
}

// --- output ---

// Each side merged, the baseline taken as if it had as many profiles.
static int draw_difference(struct call *call, const struct diff_sides *sides, struct err *e)
{
    struct model_profile *both[2];
    struct call drawing = *call;
    size_t at = 0;
    for (int i = 0; i < 2; i++, at += sides->n[0]) {
        struct model_profile *merged = model_merge(
            (struct model_profile *const *)sides->profiles + at, sides->n[i], call->arena, e);
        if (!merged)
            return -1;
        double *ratios = arena_array(call->arena, merged->n_types + 1, sizeof *ratios);
        for (uint32_t k = 0; k < merged->n_types; k++)
            ratios[k] = 1 / (double)sides->n[i];
        both[i] = model_scale(merged, ratios, call->arena);
    }
    int type = model_type_index(both[1], str_from(call->config.sample_index), e);
    if (type < 0)
        return -1;
    drawing.config.output = call->picture;
    drawing.base = "";
    return flame_draw(&drawing, both[1],
                      (struct report_flame_options){.type = (uint32_t)type, .base = both[0]}, e);
}

static int write_result(const struct check *c, const struct call *call, struct err *e)
{
    static const char *const formats[] = {"text", "json", "junit", "markdown"};
    enum check_format format = CHECK_TEXT;
    while (strcmp(formats[format], call->format) != 0)
        format++;
    struct terminal terminal =
        *call->config.output ? (struct terminal){0} : terminal_stdout(call->colour);
    struct out out;
    if (output_begin(&out, call->config.output, e))
        return -1;
    check_write(c, format, &terminal, &out);
    return output_end(&out, call->config.output, e);
}

// A misspelled type would silently have the default budget.
static void note_unused_budgets(const struct check *c, const struct check_budget *budget)
{
    struct str type;
    for (size_t i = 0; (type = check_budget_type(budget, i)).n; i++) {
        size_t k = 0;
        while (k < c->n && !str_eq(c->items[k].type, type))
            k++;
        if (k == c->n)
            call_note(arena_printf(c->arena, "budget of %.*s: the profiles have no such type",
                                   (int)type.n, type.p));
    }
}

// --- the command ---

static int load_files(struct call *call, struct diff_sides *sides, struct err *e)
{
    if (!*call->baseline)
        return err_set(e, "no baseline; name one with --base, or compare commands with --run and "
                          "--against");
    return call_load_side(call, &call->baseline, 1, sides, 0, e) ||
                   call_load_side(call, call->arguments, call->n_arguments, sides, 1, e)
               ? -1
               : model_make_compatible((struct model_profile **)sides->profiles,
                                       sides->n[0] + sides->n[1], call->arena, e);
}

static int load(struct call *call, struct check_runs *runs, struct err *e)
{
    if (*call->run)
        return check_run_commands(call, runs, e);
    if (*call->remote)
        return check_load_server(call, &runs->cpu, e);
    return load_files(call, &runs->cpu, e);
}

int command_check(struct call *call, struct err *e)
{
    struct check_runs runs = {0};
    struct check_budget *budget = check_budget_read(call->budget, call->arena, e);
    if (!budget || load(call, &runs, e))
        return -1;
    struct check c = {.arena = call->arena,
                      .n_profiles = {runs.cpu.n[0], runs.cpu.n[1]},
                      .level = gate_level,
                      .picture = call->picture};
    if (compare_types(&c, budget, &runs.cpu, call, e) ||
        (runs.heap.profiles && compare_types(&c, budget, &runs.heap, call, e)) ||
        (runs.peaks && compare_peaks(&c, budget, runs.peaks, e)) ||
        (*call->picture && draw_difference(call, &runs.cpu, e)) || write_result(&c, call, e))
        return -1;
    note_unused_budgets(&c, budget);
    return check_outcome(&c) == CHECK_FAILED;
}
