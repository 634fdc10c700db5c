// kiln check: exit status 1 if something got worse beyond noise and budget.
#include "cli/check.h"

#include <math.h>

#include "cli/flame.h"
#include "cli/output.h"
#include "cli/view.h"
#include "model/transform.h"

// A gate that fails for no reason is soon ignored: stricter than a table that a person reads.
static const double gate_level = 0.01;

static void check_add(struct check *c, struct check_item item)
{
    c->items = arena_push(c->arena, c->items, c->n, &c->cap, sizeof *c->items);
    c->items[c->n] = item;
    c->n_by_verdict[item.verdict]++;
    c->n++;
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

// A culprit: what grew is not what it calls. The mark says that it differs from the rest of the
// program; to fail it must have grown in its own right as well.
static void judge_function(struct check *c, const struct check_budget *budget, const struct diff *d,
                           const struct stats_function *row)
{
    const struct stats_measure *m = row->total.mark == STATS_CHANGED ? &row->total : &row->self;
    if (m->mark != STATS_CHANGED)
        return;
    struct diff_change change = diff_change(d, m);
    bool grew = m->change.after > stats_scale(&d->functions.fit) * m->change.before;
    c->n_improved += !grew && change.change + change.half_width < 0;
    struct check_allowance a = check_budget_function(budget, d->type, row->name);
    // Shares are in units of the comparison's total.
    double program = d->normalised ? diff_total(d).after : diff_total(d).before;
    if (!grew || change.change - change.half_width <= a.growth * change.before ||
        change.change < a.share * program)
        return;
    check_add(c, (struct check_item){.type = d->type,
                                     .unit = d->unit,
                                     .function = row->name,
                                     .change = change,
                                     .budget = a.growth,
                                     .verdict = CHECK_FAILED});
}

// Memory in use may be nothing; other costs are not.
static int require_samples(const struct diff *d, struct err *e)
{
    const double *totals = d->functions.fit.totals;
    if ((totals[0] > 0 && totals[1] > 0) || str_starts(d->type, STR("inuse_")))
        return 0;
    return err_set(e, "no samples of type %.*s %s; nothing was compared", (int)d->type.n, d->type.p,
                   totals[0] > 0 ? "in the change" : "in the baseline");
}

static int compare_type(struct check *c, const struct check_budget *budget,
                        const struct diff_sides *sides, const char *type, const struct call *call,
                        struct err *e)
{
    // Versions on a server get different shares of the traffic.
    bool shares = *call->remote;
    struct diff d = {.level = c->level, .normalised = shares};
    struct config config = call->config;
    struct arena_trap trap;
    config.sample_index = type;
    if (diff_count(&d, sides, &config, c->arena, call_note, e) || require_samples(&d, e))
        return -1;
    if (ARENA_TRY(c->arena, trap))
        return arena_caught(c->arena, e);
    if (!shares)
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
        const struct model_profile *kept =
            merged ? view_filter(merged, &call->config, call->arena, call_note, e) : NULL;
        if (!kept)
            return -1;
        double *ratios = arena_array(call->arena, merged->n_types + 1, sizeof *ratios);
        for (uint32_t k = 0; k < merged->n_types; k++)
            ratios[k] = 1 / (double)sides->n[i];
        both[i] = model_scale(kept, ratios, call->arena);
    }
    int type = model_type_index(both[1], str_from(call->config.sample_index), e);
    if (type < 0)
        return -1;
    const char *change = *call->run ? call->run : call->arguments[0];
    drawing.config.output = call->picture;
    drawing.base = *call->against ? call->against : call->baseline;
    drawing.arguments = &change;
    drawing.n_arguments = 1;
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

// An option that does nothing would surprise later.
static int check_options(const struct call *call, struct err *e)
{
    bool runs = *call->run, server = *call->remote;
    if (runs + server + (*call->baseline != '\0') > 1)
        return err_set(e, "--base, --run and --server are three ways to compare; use one");
    if (!runs && (call->runs != CHECK_RUNS || call->heap || call->frequency))
        return err_set(e, "--runs, --heap and --frequency only apply to --run");
    if (!runs && !server && *call->against)
        return err_set(e, "--against only applies to --run and --server; name files with --base");
    if (!server && (strcmp(call->from, "now-1h") != 0 || strcmp(call->until, "now") != 0 ||
                    *call->base_from || *call->base_until))
        return err_set(e, "--from, --until, --base-from and --base-until only apply to --server");
    if (call->frequency < 0 || call->frequency > 10000)
        return err_set(e, "invalid --frequency %d; expected 1 to 10000", call->frequency);
    return 0;
}

static int load(struct call *call, struct check_runs *runs, struct err *e)
{
    if (check_options(call, e))
        return -1;
    if (*call->run)
        return check_run_commands(call, runs, e);
    if (*call->remote)
        return check_load_server(call, &runs->cpu, e);
    return load_files(call, &runs->cpu, e);
}

// Whether the profiles have that type; any, if none is named.
static bool has_type(const struct diff_sides *sides, const char *name)
{
    struct err ignored;
    return !*name || model_type_index(sides->profiles[0], str_from(name), &ignored) >= 0;
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
    bool heap = runs.heap.profiles && has_type(&runs.heap, call->config.sample_index);
    bool cpu = !heap || has_type(&runs.cpu, call->config.sample_index);
    if ((cpu && compare_types(&c, budget, &runs.cpu, call, e)) ||
        (heap && compare_types(&c, budget, &runs.heap, call, e)) || write_result(&c, call, e))
        return -1;
    note_unused_budgets(&c, budget);
    if (*call->picture && draw_difference(call, &runs.cpu, e))
        return -1;
    return check_outcome(&c) == CHECK_FAILED;
}
