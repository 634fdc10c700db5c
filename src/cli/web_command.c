// kiln web FILE...
#include <stdio.h>

#include "cli/commands.h"
#include "cli/web.h"
#include "net/pages.h"

static const char *title(struct arena *arena, const char *const *names, size_t n, const char *base)
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

int web_load(struct web *web, const struct source *source, struct arena *arena, struct err *e)
{
    web->p = source_load(source, arena, e);
    if (!web->p)
        return -1;
    web->title =
        title(arena, source->names, source->n_names, source->n_bases ? source->bases[0] : "");
    if (!source->n_bases)
        return 0;
    // The difference has lost what its sides had in common; a diff flame graph shows both.
    struct source side = *source;
    side.n_bases = 0;
    side.diff_base = side.normalize = false;
    web->sides[1] = source_load(&side, arena, e);
    side.names = source->bases;
    side.n_names = source->n_bases;
    web->sides[0] = web->sides[1] ? source_load(&side, arena, e) : NULL;
    return web->sides[0] ? 0 : -1;
}

static void say(const char *text)
{
    fprintf(stderr, "kiln: %s (Ctrl-C ends it)\n", text);
}

int command_web(struct call *call, struct err *e)
{
    struct web web = {0};
    if (pages_available(e) || call_sources(call, 0, e))
        return -1;
    if (web_load(&web, &call->source, call->arena, e))
        return -1;
    web.config = call->config;
    struct web_options options = {
        .listen = call->listen, .no_browser = call->no_browser, .say = say};
    return web_serve(&web, &options, e);
}
