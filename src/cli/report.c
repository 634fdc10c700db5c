// kiln's names for pprof's reports: kiln top, tree, peek, ...
#include "cli/commands.h"

#include <unistd.h>

#include "cli/diff.h"
#include "cli/output.h"
#include "cli/present.h"
#include "model/transform.h"

static int finish_report_output(struct out *out, int result, struct err *e)
{
    if (out_finish(out, result ? NULL : e))
        result = -1;
    out_fini(out);
    return result;
}

static int all_types(struct call *call, const struct model_profile *p, const struct terminal *t,
                     struct err *e)
{
    if (*call->config.output)
        return err_set(e, "--all-types writes to standard output: use > instead of -o");
    struct out out;
    out_init_fd(&out, STDOUT_FILENO);
    return finish_report_output(&out, present_all_types(p, &call->config, call->arena, t, &out, e),
                                e);
}

static int present_report(struct call *call, struct report *r, const struct terminal *t,
                          struct err *e)
{
    struct out out;
    out_init_fd(&out, STDOUT_FILENO);
    int result;
    switch (r->o.format) {
    case REPORT_TEXT:
        result = present_top(r, &call->config, t, &out, e);
        break;
    case REPORT_TREE:
        result = present_tree(r, t, &out, e);
        break;
    default:
        result = present_lines(r, t, &out, e);
        break;
    }
    return finish_report_output(&out, result, e);
}

// Formats for programs are never laid out.
static bool is_for_people(enum report_format format)
{
    return format == REPORT_TEXT || format == REPORT_TREE || format == REPORT_TRACES ||
           format == REPORT_TAGS || format == REPORT_COMMENTS || format == REPORT_LIST ||
           format == REPORT_DISASM;
}

static bool is_within_noise(const void *context, struct str name)
{
    struct diff *d = (struct diff *)context;
    size_t n = d->functions.n;
    uint32_t row = stats_functions_find(&d->functions, name);
    return row >= n || (d->functions.rows[row].self.mark == STATS_NOISE &&
                        d->functions.rows[row].total.mark == STATS_NOISE);
}

// Which nodes of a difference are gray. In the difference that is drawn, equal parts cancel out;
// noise needs both sides.
static int find_noise(struct call *call, size_t first, struct report *r, struct err *e)
{
    struct call side = *call;
    struct diff_sides sides = {0};
    struct diff *d = arena_alloc(call->arena, sizeof *d);
    const char *base = *call->base ? call->base : call->diff_base;
    *d = (struct diff){.normalized = call->config.normalize};
    side.base = side.diff_base = "";
    side.config.normalize = false;
    if (call_load_side(&side, &base, 1, &sides, 0, e) ||
        call_load_side(&side, call->arguments + first, call->n_arguments - first, &sides, 1, e) ||
        !sides.n[0] || !sides.n[1] ||
        model_make_compatible((struct model_profile **)sides.profiles, sides.n[0] + sides.n[1],
                              call->arena, e) ||
        diff_count(d, &sides, &call->config, call->arena, NULL, e))
        return -1;
    r->o.is_noise = is_within_noise;
    r->o.noise_context = d;
    return 0;
}

int command_report(struct call *call, struct err *e)
{
    const struct view_command *command = view_command_find(call->command->name);
    size_t first = 0;
    const char *regexp = NULL;
    if (command->takes_regexp) {
        regexp = call->arguments[first++];
        if (call->n_arguments < 2)
            return err_set(e, "%s takes a regular expression and a profile: kiln %s %s",
                           command->name, command->name, call->command->arguments);
    }
    call->source.keeps_encoded = !call->all_types;
    call->source.joins_encoded = view_needs_only_sums(command, &call->config);
    struct model_profile *p = call_load(call, first, e);
    if (!p)
        return -1;
    struct terminal t = terminal_stdout(call->colour);
    if (call->all_types)
        return all_types(call, p, &t, e);
    struct report r;
    if (view_prepare(&r, p, command, regexp, &call->config, call->arena, call_note, e))
        return -1;
    r.o.note = call_note;
    if (r.o.format == REPORT_DOT && (*call->base || *call->diff_base) &&
        find_noise(call, first, &r, e))
        return -1;
    if (t.pretty && !*call->config.output && is_for_people(r.o.format))
        return present_report(call, &r, &t, e);
    // Unlike pprof, do not write large reports to a file: the user redirects them.
    struct view_command plain = *command;
    plain.extension = NULL;
    return output_report(&r, &plain, call->config.output, false, e);
}
