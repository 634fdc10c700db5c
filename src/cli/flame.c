// kiln flame: flame graphs in files and in the terminal.
#include "cli/flame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/view.h"

enum kind { TERMINAL, SVG, HTML, TEXT };

static int flame_kind(const char *name, struct err *e)
{
    struct str s = str_from(name);
    if (s.n == 0 || str_eq(s, STR("-")))
        return TERMINAL;
    if (str_ends(s, STR(".svg")))
        return SVG;
    if (str_ends(s, STR(".html")) || str_ends(s, STR(".htm")))
        return HTML;
    if (str_ends(s, STR(".txt")))
        return TEXT;
    return err_set(e, "%s: unknown format; use .svg, .html or .txt", name);
}

static const struct model_profile *load_filtered(struct call *call, struct source *source,
                                                 struct err *e)
{
    source->strict = true;
    struct model_profile *p = source_load(source, call->arena, e);
    return p ? view_filter(p, &call->config, call->arena, call_note, e) : NULL;
}

static const char *flame_subtitle(const struct call *call)
{
    const char *text = strcmp(call->arguments[0], "-") ? call->arguments[0] : "standard input";
    if (call->n_arguments > 1)
        text = arena_printf(call->arena, "%s and %zu more", text, call->n_arguments - 1);
    if (*call->base)
        text = arena_printf(call->arena, "%s → %s", call->base, text);
    const char *const filters[][2] = {
        {"focus", call->config.focus},         {"ignore", call->config.ignore},
        {"hide", call->config.hide},           {"show", call->config.show},
        {"show_from", call->config.show_from}, {"prune_from", call->config.prune_from},
        {"tagfocus", call->config.tagfocus},   {"tagignore", call->config.tagignore}};
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (*filters[i][1])
            text = arena_printf(call->arena, "%s · %s=%s", text, filters[i][0], filters[i][1]);
    return text;
}

static void draw_flame(const struct call *call, const struct report_flame *flame, enum kind kind,
                       struct out *out)
{
    struct report_flame_style style = {.title = *call->title ? call->title : NULL,
                                       .subtitle = flame_subtitle(call),
                                       .width = call->width,
                                       .flip = call->flip};
    if (kind == SVG) {
        report_flame_svg(flame, &style, out);
        return;
    }
    if (kind == HTML) {
        report_flame_html(flame, &style, out);
        return;
    }
    struct terminal t = {0};
    if (kind == TERMINAL)
        t = terminal_stdout(call->colour);
    int columns = call->width > 0 ? call->width : (int)t.columns;
    // One line of the window is for the prompt.
    int rows = t.rows > 2 ? (int)t.rows - 1 : 0;
    report_flame_term(flame, &style, columns, rows,
                      t.true_colour ? REPORT_FLAME_TRUE_COLOUR
                      : t.colour    ? REPORT_FLAME_256
                                    : REPORT_FLAME_PLAIN,
                      out);
}

static int write_flame_file(const struct call *call, const struct report_flame *flame,
                            enum kind kind, struct err *e)
{
    const char *name = call->config.output;
    int fd = STDOUT_FILENO;
    if (kind != TERMINAL)
        fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_set(e, "%s: %s", name, strerror(errno));
    struct out out;
    out_init_fd(&out, fd);
    draw_flame(call, flame, kind, &out);
    int result = out_finish(&out, e);
    out_fini(&out);
    if (kind == TERMINAL)
        return result;
    if (close(fd) && result == 0)
        result = err_set(e, "%s: %s", name, strerror(errno));
    if (result)
        err_prefix(e, "%s: ", name);
    return result;
}

int flame_draw(const struct call *call, const struct model_profile *p,
               struct report_flame_options options, struct err *e)
{
    int kind = flame_kind(call->config.output, e);
    if (kind < 0)
        return -1;
    options.all_types = options.functions = kind == HTML;
    options.max_nodes = kind == SVG ? REPORT_FLAME_SVG_NODES : REPORT_FLAME_HTML_NODES;
    struct report_flame *flame = report_flame_new(call->arena, p, &options, e);
    return flame ? write_flame_file(call, flame, (enum kind)kind, e) : -1;
}

int flame_check(const char *name, struct err *e)
{
    int kind = flame_kind(name, e);
    return kind > TERMINAL ? output_check(name, e) : kind;
}

int command_flame(struct call *call, struct err *e)
{
    if (flame_kind(call->config.output, e) < 0)
        return -1;
    if (call->normalize && !*call->base)
        return err_set(e, "--normalize compares two profiles; name the other one with --diff");
    if (call->min_share < 0 || call->min_share >= 1)
        return err_set(e, "invalid --min-share; expected a share from 0 to 1, such as 0.001");
    struct source source = call->source;
    source.names = call->arguments;
    source.n_names = call->n_arguments;
    const struct model_profile *p = load_filtered(call, &source, e);
    if (!p)
        return -1;
    int type = model_type_index(p, str_from(call->config.sample_index), e);
    if (type < 0)
        return -1;
    struct report_flame_options options = {
        .type = (uint32_t)type,
        .reverse = call->reverse,
        .normalize = call->normalize,
        .min_share = call->min_share,
    };
    if (*call->base) {
        source.names = &call->base;
        source.n_names = 1;
        options.base = load_filtered(call, &source, e);
        if (!options.base)
            return -1;
    }
    return flame_draw(call, p, options, e);
}
