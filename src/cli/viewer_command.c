// kiln web FILE...
#include <stdio.h>

#include "cli/commands.h"
#include "cli/viewer.h"
#include "net/pages.h"

static const char *make_viewer_title(struct arena *arena, const char *const *names, size_t n,
                                     const char *base)
{
    const char *first = strrchr(names[0], '/');
    const char *text = first && first[1] ? first + 1 : names[0];
    if (strcmp(text, "-") == 0)
        text = "standard input";
    if (n > 1)
        text = arena_printf(arena, "%s and %zu more", text, n - 1);
    if (*base) {
        const char *slash = strrchr(base, '/');
        text = arena_printf(arena, "%s → %s", slash && slash[1] ? slash + 1 : base, text);
    }
    return text;
}

int viewer_load(struct viewer *viewer, const struct source *source, struct arena *arena,
                struct err *e)
{
    viewer->p = source_load(source, arena, e);
    if (!viewer->p)
        return -1;
    viewer->title = make_viewer_title(arena, source->names, source->n_names,
                                      source->n_bases ? source->bases[0] : "");
    if (!source->n_bases)
        return 0;
    // In the difference, equal parts cancel out; a diff flame graph needs both sides.
    struct source side = *source;
    side.n_bases = 0;
    side.diff_base = side.normalize = false;
    viewer->sides[1] = source_load(&side, arena, e);
    side.names = source->bases;
    side.n_names = source->n_bases;
    viewer->sides[0] = viewer->sides[1] ? source_load(&side, arena, e) : NULL;
    return viewer->sides[0] ? 0 : -1;
}

static void print_viewer_text(const char *text)
{
    fprintf(stderr, "kiln: %s (Ctrl-C ends it)\n", text);
}

int command_web(struct call *call, struct err *e)
{
    struct viewer viewer = {0};
    if (pages_available(e) || call_sources(call, 0, e))
        return -1;
    if (viewer_load(&viewer, &call->source, call->arena, e))
        return -1;
    viewer.config = call->config;
    struct viewer_options options = {
        .listen = call->listen, .no_browser = call->no_browser, .say = print_viewer_text};
    return viewer_serve(&viewer, &options, e);
}
