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

static void check_add_type(struct check *c, struct str type)
{
    c->types = arena_push(c->arena, c->types, c->n_types, &c->cap_types, sizeof *c->types);
    c->types[c->n_types++] = type;
}

enum check_verdict check_outcome(const struct check *c)
{
    return c->n_by_verdict[CHECK_FAILED]      ? CHECK_FAILED
           : c->n_by_verdict[CHECK_UNDECIDED] ? CHECK_UNDECIDED
                                              : CHECK_PASSED;
}

// --- judging ---

static void judge_total(struct check *c, struct check_item item, const struct stats_change *s)
{
    item.change = (struct diff_change){.before = s->before,
                                       .after = s->after,
                                       .change = s->after - s->before,
                                       .half_width = s->half_width};
    const struct diff_change *d = &item.change;
    // The change may be closer to the budget than it seems.
    const double closer = 0.75;
    double allowed = item.budget * d->before;
    size_t n = c->n_profiles[0] < c->n_profiles[1] ? c->n_profiles[0] : c->n_profiles[1];
    if (n < 2) {
        item.verdict = CHECK_UNDECIDED;
    } else if (d->change - d->half_width > allowed) {
        item.verdict = CHECK_FAILED;
    } else if (d->change + d->half_width > allowed) {
        item.verdict = CHECK_UNDECIDED;
        item.needed = stats_profiles_needed(s, c->n_profiles, closer * fabs(allowed - d->change));
        item.needed = item.needed > n ? item.needed : n + 1;
    }
    check_add(c, item);
}

static void judge_peak(struct check *c, const struct check_budget *budget,
                       const struct stats_cell *peaks)
{
    struct check_item item = {.type = STR("peak_memory"),
                              .unit = STR("bytes"),
                              .budget = check_budget_total(budget, STR("peak_memory"))};
    check_add_type(c, item.type);
    if (peaks) {
        struct stats_change change = stats_test_means(peaks, c->n_profiles);
        judge_total(c, item, &change);
        return;
    }
    item.verdict = CHECK_UNDECIDED;
    item.reason = "cannot be measured because /proc/self/clear_refs is not writable";
    check_add(c, item);
}

// --- functions ---

struct judge {
    struct check *c;
    const struct check_budget *budget;
    const struct diff *d;
    bool *has_shift; // judged
};

// The mark says that it differs from the rest of the program; to fail it must have grown in its own
// right as well.
static bool exceeds_budget(const struct judge *j, const struct stats_measure *m,
                           struct check_item *item)
{
    const struct diff *d = j->d;
    struct check_allowance a = check_budget_function(j->budget, d->type, item->function);
    struct diff_change change = diff_change(d, m);
    // Shares are in units of the comparison's total.
    double program = d->normalized ? diff_total(d).after : diff_total(d).before;
    bool grew = m->change.after > stats_scale(&d->functions.fit) * m->change.before;
    item->change = change;
    item->budget = a.growth;
    return m->mark == STATS_CHANGED && grew &&
           change.change - change.half_width > a.growth * change.before &&
           change.change >= a.share * program;
}

// Cost that came from another function is judged together with what that function had.
static void judge_shift(struct judge *j, uint32_t index, struct check_item item)
{
    const struct stats_shift *shift = &j->d->shifts.items[index];
    const struct stats_function *rows = j->d->functions.rows;
    if (j->has_shift[index])
        return;
    j->has_shift[index] = true;
    item.function = rows[shift->to].name;
    item.moved_from = rows[shift->from].name;
    item.verdict = exceeds_budget(j, &shift->measure, &item) ? CHECK_FAILED : CHECK_PASSED;
    check_add(j->c, item);
}

// A culprit: what grew is not what it calls.
static void judge_function(struct judge *j, uint32_t row)
{
    const struct stats_function *f = &j->d->functions.rows[row];
    const struct stats_measure *m = f->total.mark == STATS_CHANGED ? &f->total : &f->self;
    struct check_item item = {
        .type = j->d->type, .unit = j->d->unit, .function = f->name, .verdict = CHECK_FAILED};
    bool worse = exceeds_budget(j, m, &item);
    uint32_t shift = j->d->shifts.of_row[row];
    j->c->n_improved +=
        m->mark == STATS_CHANGED && !shift && item.change.change + item.change.half_width < 0;
    if (worse && shift)
        judge_shift(j, shift - 1, item);
    else if (worse)
        check_add(j->c, item);
}

// Memory in use may be nothing; other costs are not.
static bool has_samples(const struct diff *d)
{
    const double *totals = d->functions.fit.totals;
    return (totals[0] > 0 && totals[1] > 0) || str_starts(d->type, STR("inuse_"));
}

static void judge_functions(struct check *c, const struct check_budget *budget,
                            const struct diff *d)
{
    struct judge j = {c, budget, d, arena_array(c->arena, d->shifts.n + 1, sizeof *j.has_shift)};
    const char *reason = NULL;
    for (uint32_t i = 0; i < d->functions.n; i++)
        judge_function(&j, i);
    if (!d->is_counted)
        reason = "the profiles do not say how many samples they have, so nothing tells changes "
                 "from noise";
    else if (!has_samples(d))
        reason = "no samples; run longer or raise --frequency";
    if (reason)
        check_add(
            c, (struct check_item){.type = d->type, .verdict = CHECK_UNDECIDED, .reason = reason});
}

static bool is_filtered(const struct config *c)
{
    return *c->focus || *c->ignore || *c->prune_from || *c->hide || *c->show || *c->show_from ||
           *c->tagfocus || *c->tagignore;
}

static int fail_without_samples(const struct diff *d, struct err *e)
{
    return err_set(e, "no samples of type %.*s %s; nothing was compared", (int)d->type.n, d->type.p,
                   d->functions.fit.totals[0] > 0 ? "in the change" : "in the baseline");
}

static int compare_type(struct check *c, const struct check_budget *budget,
                        const struct diff_sides *sides, const char *type, const struct call *call,
                        struct err *e)
{
    // Versions on a server get different shares of the traffic.
    bool shares = *call->remote;
    struct diff d = {.level = c->level, .normalized = shares, .wants_shifts = true};
    struct config config = call->config;
    struct arena_trap trap;
    config.sample_index = type;
    if (diff_count(&d, sides, &config, c->arena, call_note, e))
        return -1;
    // The kernel's CPU times are exact.
    bool exact = c->times && str_eq(d.type, STR("cpu")) && !is_filtered(&config);
    struct stats_change total =
        exact ? stats_test_means(c->times, c->n_profiles) : d.functions.total;
    // A command may allocate less than what is sampled.
    if (!c->times && !has_samples(&d))
        return fail_without_samples(&d, e);
    for (int side = 0; side < 2 && !c->n; side++)
        c->events[side] = d.events[side];
    c->is_heap = c->n ? c->is_heap : d.is_heap;
    if (ARENA_TRY(c->arena, trap))
        return arena_caught(c->arena, e);
    check_add_type(c, d.type);
    if (!shares)
        judge_total(c,
                    (struct check_item){.type = d.type,
                                        .unit = d.unit,
                                        .budget = check_budget_total(budget, d.type)},
                    &total);
    judge_functions(c, budget, &d);
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
static void note_unused_budgets(const struct check *c, const struct check_budget *budget,
                                const struct call *call)
{
    struct str type;
    bool is_total;
    if (*call->remote && check_budget_type(budget, 0, &is_total).n && is_total)
        call_note("budgets of totals do not apply to --server, which compares shares");
    for (size_t i = 0; (type = check_budget_type(budget, i, &is_total)).n; i++) {
        size_t k = 0;
        while (k < c->n_types && !str_eq(c->types[k], type))
            k++;
        if (k == c->n_types && !(is_total && *call->remote))
            call_note(arena_printf(c->arena, "budget of %.*s: the profiles have no such type",
                                   (int)type.n, type.p));
    }
}

// --- the command ---

static int load_files(struct call *call, struct diff_sides *sides, struct err *e)
{
    bool divided = call->n_before != SIZE_MAX;
    size_t before = divided ? call->n_before : 0;
    if (!*call->baseline && !before)
        return err_set(e, "no baseline; name one with --base, or compare commands with --run and "
                          "--against");
    if (before == call->n_arguments)
        return err_set(e, "no profiles of the change; name them after --");
    // Of a pattern that the shell expanded, --base gets the first file.
    if (!divided && !call_is_pattern(call->baseline) && call->n_arguments > 1)
        return err_set(e,
                       "--base names one profile, and %zu others follow it; quote patterns (--base "
                       "'main/*.pb.gz' 'pr/*.pb.gz') or put -- between the sides (--base A B -- "
                       "C D)",
                       call->n_arguments);
    if ((*call->baseline && call_load_side(call, &call->baseline, 1, sides, 0, e)) ||
        call_load_side(call, call->arguments, before, sides, 0, e) ||
        call_load_side(call, call->arguments + before, call->n_arguments - before, sides, 1, e))
        return -1;
    if (!sides->n[0] || !sides->n[1])
        return err_set(e, "no samples in the %s", sides->n[0] ? "change" : "baseline");
    return model_make_compatible((struct model_profile **)sides->profiles,
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
    return (*call->config.output && output_check(call->config.output, e)) ||
                   (*call->picture && flame_check(call->picture, e))
               ? -1
               : 0;
}

static int load_check_sides(struct call *call, struct check_runs *runs, struct err *e)
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
static bool has_sample_type(const struct diff_sides *sides, const char *name)
{
    struct err ignored;
    return !*name || model_type_index(sides->profiles[0], str_from(name), &ignored) >= 0;
}

int command_check(struct call *call, struct err *e)
{
    struct check_runs runs = {0};
    struct check_budget *budget = check_budget_read(call->budget, call->arena, e);
    if (!budget || load_check_sides(call, &runs, e))
        return -1;
    struct check c = {.arena = call->arena,
                      .n_profiles = {runs.cpu.n[0], runs.cpu.n[1]},
                      .times = runs.times,
                      .level = gate_level,
                      .picture = call->picture};
    const char *type = call->config.sample_index;
    bool only_peak = runs.is_command && strcmp(type, "peak_memory") == 0;
    bool heap = !only_peak && runs.heap.profiles && has_sample_type(&runs.heap, type);
    bool cpu = !only_peak && (!heap || has_sample_type(&runs.cpu, type));
    if ((cpu && compare_types(&c, budget, &runs.cpu, call, e)) ||
        (heap && compare_types(&c, budget, &runs.heap, call, e)))
        return -1;
    if (only_peak || (runs.is_command && !*type))
        judge_peak(&c, budget, runs.peaks);
    if (write_result(&c, call, e))
        return -1;
    note_unused_budgets(&c, budget, call);
    if (only_peak)
        call->config.sample_index = ""; // nothing can be drawn of it
    if (*call->picture && draw_difference(call, heap && !cpu ? &runs.heap : &runs.cpu, e))
        return -1;
    return check_outcome(&c) == CHECK_FAILED;
}
