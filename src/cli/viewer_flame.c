// The flame graph as page data and as files, and the profile download.
#include "report/flame.h"

#include "cli/view.h"
#include "cli/viewer.h"
#include "codec/codec.h"

enum { MOST_NODES = 500000, MOST_PATH = 2048 };

// Reads the path to the frame to open: names separated by control character 31, which does not
// occur in names.
static int read_path(struct viewer_query *q, struct report_flame_options *o, struct err *e)
{
    const char *text = viewer_parameter(q, "path", e);
    if (!text)
        return -1;
    struct str *path = arena_array(q->arena, MOST_PATH, sizeof *path);
    for (struct str rest = str_from(text); rest.n && o->n_path < MOST_PATH;) {
        size_t end = str_find(rest, STR("\x1f"), 0);
        size_t n = end == SIZE_MAX ? rest.n : end;
        path[o->n_path++] = str_from_to(rest, 0, n);
        rest = str_from_to(rest, end == SIZE_MAX ? rest.n : n + 1, rest.n);
    }
    o->path = path;
    return 0;
}

static enum report_flame_by flame_granularity(const char *granularity)
{
    return strcmp(granularity, "files") == 0       ? REPORT_FLAME_FILES
           : strcmp(granularity, "lines") == 0     ? REPORT_FLAME_LINES
           : strcmp(granularity, "addresses") == 0 ? REPORT_FLAME_ADDRESSES
                                                   : REPORT_FLAME_FUNCTIONS;
}

static struct report_flame *make_viewer_flame(struct viewer_query *q, bool all, struct err *e)
{
    const struct viewer *viewer = q->viewer;
    const struct model_profile *sides[2] = {NULL, viewer->p};
    for (int i = 0; i < 2; i++) {
        if (viewer->sides[0])
            sides[i] = viewer->sides[i];
        if (sides[i] && !(sides[i] = view_filter(sides[i], &q->config, q->arena, viewer_note, e)))
            return NULL;
    }
    int type = model_type_index(sides[1], str_from(q->config.sample_index), e);
    if (type < 0)
        return NULL;
    struct report_flame_options o = {
        .type = (uint32_t)type,
        .all_types = all,
        .functions = all,
        .reverse = viewer_flag(q, "rev"),
        .base = sides[0],
        .normalize = q->config.normalize,
        .max_nodes = REPORT_FLAME_HTML_NODES,
        .by = flame_granularity(q->config.granularity),
    };
    const char *nodes = viewer_parameter(q, "nodes", e);
    int64_t n;
    if (!nodes || read_path(q, &o, e))
        return NULL;
    if (*nodes && str_to_i64(str_from(nodes), &n) && n > 0) {
        o.max_nodes = n < MOST_NODES ? (uint32_t)n : MOST_NODES;
        o.min_share = 1e-9;
    }
    return report_flame_new(q->arena, sides[1], &o, e);
}

int viewer_flame(struct viewer_query *q, struct err *e)
{
    struct report_flame *flame = make_viewer_flame(q, true, e);
    if (!flame)
        return -1;
    struct report_flame_style style = {.title = q->viewer->title};
    out_char(q->out, '{');
    viewer_write_notes(q->out);
    out_text(q->out, ",\"flame\":");
    report_flame_json(flame, &style, q->out);
    out_char(q->out, '}');
    return 0;
}

int viewer_export(struct viewer_query *q, struct err *e)
{
    const char *format = viewer_parameter(q, "format", e);
    if (!format)
        return -1;
    bool html = strcmp(format, "html") == 0;
    if (!html && strcmp(format, "svg") != 0)
        return err_set(e, "invalid format \"%s\"; expected svg or html", format);
    struct report_flame *flame = make_viewer_flame(q, html, e);
    if (!flame)
        return -1;
    struct report_flame_style style = {.title = q->viewer->title};
    (html ? report_flame_html : report_flame_svg)(flame, &style, q->out);
    return 0;
}

int viewer_download(struct viewer_query *q, struct err *e)
{
    struct report r;
    if (view_prepare(&r, q->viewer->p, view_command_find("proto"), NULL, &q->config, q->arena,
                     viewer_note, e))
        return -1;
    return report_write(&r, q->out, e);
}
