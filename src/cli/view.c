#include "cli/view.h"

#include <stdio.h>

#include "model/stream.h"
#include "model/transform.h"
#include "report/graph.h"

#define REPORT_USAGE(name, more)                     \
    name " [n] [focus_regex]* [-ignore_regex]*" more \
         "\nAt most n entries, of samples that match focus_regex and not ignore_regex."
#define WITH_CUM " [-cum] >f"
#define CUM_HELP "\n-cum sorts by cumulative weight\nThe report goes to the file f, if one is given"
#define TO_FILE " >f"
#define FILE_HELP "\nThe report goes to the file f, if one is given"
#define LIST_USAGE(name)                                         \
    name "<func_regex|address> [-focus_regex]* [-ignore_regex]*" \
         "\nFunctions that match func_regex or contain the address."

static const char *const browsers[] = {"chrome",           "google-chrome", "chromium", "firefox",
                                       "sensible-browser", "xdg-open",      NULL};
static const char *const eog[] = {"eog", NULL};
static const char *const evince[] = {"evince", NULL};
static const char *const gv[] = {"gv", NULL};
static const char *const kcachegrind[] = {"kcachegrind", NULL};

#define PICTURE(name_, what)                                                                \
    {                                                                                       \
        .name = name_, .format = REPORT_DOT, .post = name_, .extension = name_,             \
        .summary = "Outputs a graph " what, .usage = REPORT_USAGE(name_, TO_FILE) FILE_HELP \
    }
#define VIEWER(name_, post_, viewers_, what)                                         \
    {                                                                                \
        .name = name_, .format = REPORT_DOT, .post = post_, .viewers = viewers_,     \
        .summary = "Visualize graph through " what, .usage = REPORT_USAGE(name_, "") \
    }

const struct view_command view_commands[] = {
    {.name = "comments", .format = REPORT_COMMENTS, .summary = "Output all profile comments"},
    {.name = "disasm",
     .format = REPORT_DISASM,
     .takes_regexp = true,
     .summary = "Output assembly listings annotated with samples",
     .usage = LIST_USAGE("disasm")},
    {.name = "dot",
     .format = REPORT_DOT,
     .summary = "Outputs a graph in DOT format",
     .usage = REPORT_USAGE("dot", TO_FILE) FILE_HELP},
    {.name = "list",
     .format = REPORT_LIST,
     .takes_regexp = true,
     .summary = "Output annotated source for functions matching regexp",
     .usage = LIST_USAGE("list")},
    {.name = "peek",
     .format = REPORT_TREE,
     .takes_regexp = true,
     .summary = "Output callers/callees of functions matching regexp",
     .usage = "peek func_regex\nCallers and callees of functions that match func_regex."},
    {.name = "raw",
     .format = REPORT_RAW,
     .summary = "Outputs a text representation of the raw profile"},
    {.name = "tags",
     .format = REPORT_TAGS,
     .summary = "Outputs all tags in the profile",
     .usage = "tags [tag_regex]* [-ignore_regex]* [>file]\n"
              "Tags whose key:value matches tag_regex and not ignore_regex."},
    {.name = "text",
     .format = REPORT_TEXT,
     .summary = "Outputs top entries in text form",
     .usage = REPORT_USAGE("text", WITH_CUM) CUM_HELP},
    {.name = "top",
     .format = REPORT_TEXT,
     .summary = "Outputs top entries in text form",
     .usage = REPORT_USAGE("top", WITH_CUM) CUM_HELP},
    {.name = "traces",
     .format = REPORT_TRACES,
     .summary = "Outputs all profile samples in text form"},
    {.name = "tree",
     .format = REPORT_TREE,
     .summary = "Outputs a text rendering of call graph",
     .usage = REPORT_USAGE("tree", WITH_CUM) CUM_HELP},

    {.name = "callgrind",
     .format = REPORT_CALLGRIND,
     .extension = "callgraph.out",
     .summary = "Outputs a graph in callgrind format",
     .usage = REPORT_USAGE("callgrind", TO_FILE) FILE_HELP},
    {.name = "proto",
     .format = REPORT_PROTO,
     .extension = "pb.gz",
     .summary = "Outputs the profile in compressed protobuf format"},
    {.name = "topproto",
     .format = REPORT_TOPPROTO,
     .extension = "pb.gz",
     .summary = "Outputs top entries in compressed protobuf format"},

    PICTURE("gif", "image in GIF format"),
    PICTURE("pdf", "in PDF format"),
    PICTURE("png", "image in PNG format"),
    PICTURE("ps", "in PS format"),
    PICTURE("svg", "in SVG format"),

    VIEWER("eog", "svg", eog, "eog"),
    VIEWER("evince", "pdf", evince, "evince"),
    VIEWER("gv", "ps", gv, "gv"),
    VIEWER("web", "svg", browsers, "web browser"),
    {.name = "kcachegrind",
     .format = REPORT_CALLGRIND,
     .extension = "grind",
     .viewers = kcachegrind,
     .summary = "Visualize report in KCachegrind",
     .usage = REPORT_USAGE("kcachegrind", "")},
    {.name = "weblist",
     .format = REPORT_WEBLIST,
     .takes_regexp = true,
     .extension = "html",
     .viewers = browsers,
     .summary = "Display annotated source in a web browser",
     .usage = LIST_USAGE("weblist")},
    {.name = NULL},
};

const struct view_command *view_command_find(const char *name)
{
    for (const struct view_command *c = view_commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

struct view {
    const struct model_profile *p;
    struct config c;
    struct arena *arena;
    uint32_t *units;
    void (*notes)(const char *text);
    struct err *e;
};

static void note_to_user(const struct view *v, const char *text)
{
    if (v->notes)
        v->notes(text);
}

static void note_unmatched(const struct view *v, bool fine, const char *option)
{
    char text[80];
    snprintf(text, sizeof text, "%s expression matched no samples", option);
    if (!fine)
        note_to_user(v, text);
}

static void note_conflict(void *view, struct str key, struct str used, struct str others)
{
    const struct view *v = view;
    note_to_user(v, arena_printf(v->arena,
                                 "For tag %.*s used unit %.*s, also encountered unit(s) %.*s",
                                 (int)key.n, key.p, (int)used.n, used.p, (int)others.n, others.p));
}

// Applies the settings that a command requires.
static void apply_overrides(struct config *c, const struct view_command *command)
{
    bool trim = c->trim;
    bool text = command->format == REPORT_TEXT || command->format == REPORT_TOPPROTO;
    if (strcmp(command->name, "peek") == 0)
        trim = false;
    else if (c->node_count == -1)
        c->node_count = text ? 0 : 80;
    switch (command->format) {
    case REPORT_LIST:
        trim = false;
        c->granularity = "lines";
        break;
    case REPORT_DISASM:
        // One place per address: inlined calls would count twice.
        c->noinlines = true;
        trim = false;
        c->granularity = "addresses";
        break;
    case REPORT_WEBLIST:
        c->noinlines = false;
        trim = false;
        c->granularity = "addresses";
        break;
    case REPORT_PROTO:
    case REPORT_RAW:
    case REPORT_CALLGRIND:
        trim = false;
        c->granularity = "addresses";
        break;
    default:
        break;
    }
    if (!trim) {
        c->node_count = 0;
        c->node_fraction = c->edge_fraction = 0;
    }
}

static bool compile_regex(struct view *v, const char *name, const char *pattern,
                          struct model_regex **regex)
{
    *regex = NULL;
    if (!*pattern)
        return true;
    *regex = model_regex_new(v->arena, name, str_from(pattern), v->e);
    return *regex != NULL;
}

static bool compile_tags(struct view *v, const char *name, const char *text,
                         struct model_tag_filter **filter)
{
    *filter = NULL;
    if (!*text)
        return true;
    bool is_range;
    *filter = model_tag_filter_new(v->arena, name, str_from(text), &is_range, v->e);
    if (*filter && is_range) {
        const char *value = strchr(text, '=');
        note_to_user(v, arena_printf(v->arena, "%s:Interpreted '%s' as range, not regexp", name,
                                     value ? value + 1 : text));
    }
    return *filter != NULL;
}

static int apply_filters(struct view *v)
{
    const struct config *c = &v->c;
    struct arena *a = v->arena;
    struct model_regex *focus, *ignore, *hide, *show, *show_from, *prune_from, *tagshow, *taghide;
    struct model_tag_filter *tagfocus, *tagignore;
    if (!compile_regex(v, "focus", c->focus, &focus) ||
        !compile_regex(v, "ignore", c->ignore, &ignore) ||
        !compile_regex(v, "hide", c->hide, &hide) || !compile_regex(v, "show", c->show, &show) ||
        !compile_regex(v, "show_from", c->show_from, &show_from) ||
        !compile_tags(v, "tagfocus", c->tagfocus, &tagfocus) ||
        !compile_tags(v, "tagignore", c->tagignore, &tagignore) ||
        !compile_regex(v, "prune_from", c->prune_from, &prune_from) ||
        !compile_regex(v, "tagshow", c->tagshow, &tagshow) ||
        !compile_regex(v, "taghide", c->taghide, &taghide))
        return -1;
    bool matched[4], other;
    if (focus || ignore || hide || show) {
        v->p = model_filter_frames(v->p, focus, ignore, hide, show, matched, a);
        note_unmatched(v, !focus || matched[0], "Focus");
        note_unmatched(v, !ignore || matched[1], "Ignore");
        note_unmatched(v, !hide || matched[2], "Hide");
        note_unmatched(v, !show || matched[3], "Show");
    }
    if (show_from) {
        v->p = model_show_from(v->p, show_from, &matched[0], a);
        note_unmatched(v, matched[0], "ShowFrom");
    }
    if (tagfocus || tagignore) {
        v->p = model_filter_tags(v->p, tagfocus, tagignore, v->units, &matched[0], &other, a);
        note_unmatched(v, !tagfocus || matched[0], "TagFocus");
        note_unmatched(v, !tagignore || other, "TagIgnore");
    }
    if (tagshow || taghide) {
        v->p = model_filter_label_keys(v->p, tagshow, taghide, &matched[0], &other, a);
        note_unmatched(v, !tagshow || matched[0], "TagShow");
        note_unmatched(v, !taghide || other, "TagHide");
    }
    if (prune_from)
        v->p = model_prune_from(v->p, prune_from, a);
    return 0;
}

static void aggregate_view(struct view *v)
{
    const char *g = v->c.granularity;
    struct model_detail d = {.inlines = !v->c.noinlines, .columns = v->c.showcolumns};
    if (strcmp(g, "addresses") == 0) {
        if (d.inlines)
            return;
        d.functions = d.filenames = d.lines = d.addresses = true;
    } else if (strcmp(g, "lines") == 0) {
        d.functions = d.filenames = d.lines = true;
    } else if (strcmp(g, "files") == 0) {
        d.filenames = true;
    } else if (strcmp(g, "filefunctions") == 0) {
        d.functions = d.filenames = true;
    } else {
        d.functions = true;
    }
    v->p = model_aggregate(v->p, d, v->arena);
}

static void collect_filters(struct view *v, struct report_options *o)
{
    const struct config *c = &v->c;
    const char *filters[][2] = {
        {"focus", c->focus},         {"ignore", c->ignore},       {"hide", c->hide},
        {"show", c->show},           {"show_from", c->show_from}, {"tagfocus", c->tagfocus},
        {"tagignore", c->tagignore}, {"tagshow", c->tagshow},     {"taghide", c->taghide},
    };
    enum { N = sizeof filters / sizeof *filters };
    struct str *list = arena_array(v->arena, N, sizeof *list);
    for (size_t i = 0; i < N; i++)
        if (*filters[i][1])
            list[o->n_filters++] =
                str_from(arena_printf(v->arena, "%s=%s", filters[i][0], filters[i][1]));
    o->filters = list;
}

// Like pprof's disasm, prints to standard output, before the report.
static void print_note(const char *text)
{
    puts(text);
    fflush(stdout);
}

static int choose_options(struct view *v, const struct view_command *command,
                          struct report_options *o)
{
    const struct config *c = &v->c;
    const struct model_profile *p = v->p;
    if (p->n_types == 0)
        return err_set(v->e, "profile has no samples");
    int type = model_type_index(p, str_from(c->sample_index), v->e);
    if (type < 0)
        return -1;
    if (c->divide_by == 0)
        return err_set(v->e, "zero divisor specified");
    struct str name = model_str(p, p->types[type].type);
    *o = (struct report_options){
        .format = command->format,
        .cum_sort = strcmp(c->sort, "cum") == 0,
        .call_tree = c->call_tree,
        .drop_negative = c->drop_negative,
        .compact_labels = c->compact_labels,
        .mean = c->mean,
        .ratio = 1 / c->divide_by,
        .node_count = c->node_count,
        .node_fraction = c->node_fraction,
        .edge_fraction = c->edge_fraction,
        .type = (uint32_t)type,
        .type_name =
            c->mean ? str_from(arena_printf(v->arena, "mean_%.*s", (int)name.n, name.p)) : name,
        .unit = model_str(p, p->types[type].unit),
        .output_unit = str_from(c->unit),
        .label_units = v->units,
        .source_path = str_from(c->source_path),
        .trim_path = str_from(c->trim_path),
        .binaries = {.own_process = true, .debug_dirs = c->debug_dirs, .cxx = demangle_cxx_iberty},
        .tools = c->tools,
        .intel_syntax = c->intel_syntax,
        .note = command->format == REPORT_DISASM ? print_note : v->notes,
    };
    collect_filters(v, o);
    if (p->n_mappings && p->mappings[0].file)
        o->title = path_base(model_str(p, p->mappings[0].file));
    return 0;
}

static void add_label_frames(struct view *v)
{
    bool root, leaf;
    if (!*v->c.tagroot && !*v->c.tagleaf)
        return;
    v->p = model_add_label_frames(v->p, str_from(v->c.tagroot), str_from(v->c.tagleaf),
                                  str_from(v->c.unit), &root, &leaf, v->arena);
    note_unmatched(v, !*v->c.tagroot || root, "TagRoot");
    note_unmatched(v, !*v->c.tagleaf || leaf, "TagLeaf");
}

// Whether the view needs the labels of all samples before the report is written.
static bool has_label_filters(const struct config *c)
{
    return *c->tagfocus || *c->tagignore || *c->tagshow || *c->taghide || *c->tagroot ||
           *c->tagleaf;
}

bool view_needs_only_sums(const struct view_command *command, const struct config *config)
{
    // Totals of encoded samples are those before the filters.
    if (has_label_filters(config) || config->relative_percentages)
        return false;
    switch (command->format) {
    case REPORT_TEXT:
    case REPORT_TOPPROTO:
    case REPORT_TREE:
    case REPORT_TAGS:
    case REPORT_COMMENTS:
    case REPORT_LIST:
    case REPORT_DISASM:
        return true;
    case REPORT_CALLGRIND:
    case REPORT_DOT:
        return !config->call_tree;
    default:
        return false;
    }
}

static bool allows_encoded(const struct view *v, const struct view_command *command)
{
    const struct model_profile *p = v->p;
    bool has_base = model_find_string(p->strings, STR("pprof::base")) != MODEL_NONE;
    if (has_base && p->stream->has_labels)
        return false;
    if (command->format == REPORT_DOT && p->stream->has_labels)
        return false;
    bool writes_each = command->format == REPORT_TRACES || command->format == REPORT_RAW;
    if (writes_each && !p->stream->repeats && !has_label_filters(&v->c) &&
        !v->c.relative_percentages)
        return true;
    return view_needs_only_sums(command, &v->c);
}

static int prepare_report(struct report *r, struct view *v, const struct view_command *command,
                          const char *argument)
{
    if (v->p->stream && !allows_encoded(v, command))
        v->p = model_decode_samples(v->p, v->arena);
    v->units = model_label_units(v->p, v->arena, note_conflict, v);
    apply_overrides(&v->c, command);
    add_label_frames(v);
    if (v->c.relative_percentages && apply_filters(v))
        return -1;
    if (choose_options(v, command, &r->o))
        return -1;
    if (argument) {
        struct err why;
        r->o.symbol = model_regex_new(v->arena, "argument", str_from(argument), &why);
        if (!r->o.symbol)
            return err_set(v->e, "parsing argument regexp %s: %s", argument,
                           strstr(why.message, ": ") + 2);
    }
    r->total = report_total(v->p, r->o.type, r->o.mean);
    if (!v->c.relative_percentages && apply_filters(v))
        return -1;
    aggregate_view(v);
    r->p = v->p;
    r->arena = v->arena;
    return 0;
}

int view_prepare(struct report *r, const struct model_profile *p,
                 const struct view_command *command, const char *argument,
                 const struct config *config, struct arena *arena, void (*notes)(const char *text),
                 struct err *e)
{
    *r = (struct report){0};
    struct view v = {.p = p, .c = *config, .arena = arena, .notes = notes, .e = e};
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    int result = prepare_report(r, &v, command, argument);
    arena_try_end(arena);
    return result;
}

const struct model_profile *view_filter(const struct model_profile *p, const struct config *config,
                                        struct arena *arena, void (*notes)(const char *text),
                                        struct err *e)
{
    struct view v = {.p = p, .c = *config, .arena = arena, .notes = notes, .e = e};
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    v.p = model_decode_samples(p, arena);
    v.units = model_label_units(v.p, arena, note_conflict, &v);
    add_label_frames(&v);
    int result = apply_filters(&v);
    if (result == 0 && v.c.noinlines) {
        struct model_detail all = {.functions = true,
                                   .filenames = true,
                                   .lines = true,
                                   .columns = true,
                                   .addresses = true};
        v.p = model_aggregate(v.p, all, arena);
    }
    arena_try_end(arena);
    return result == 0 ? v.p : NULL;
}
