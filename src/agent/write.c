// Writes profiles in the formats that a service provides.
#include <errno.h>
#include <stdio.h>

#include "agent/agent.h"
#include "agent/gzip.h"
#include "agent/heap/heap_source.h"
#include "agent/collector/callbacks.h"
#include "agent/names/names.h"
#include "codec/codec.h"
#include "report/flame.h"

// The type that readers show first.
static uint32_t main_type(const struct model_profile *p, uint32_t otherwise)
{
    int type = p->default_type ? model_type_index(p, model_str(p, p->default_type), NULL) : -1;
    return type < 0 ? otherwise : (uint32_t)type;
}

static int write_gzipped_pprof(const struct model_profile *p, struct out *out, struct err *e)
{
    struct out raw;
    out_init_memory(&raw, SIZE_MAX);
    int result =
        codec_write_pprof(p, &raw, e) || out_finish(&raw, e) || gzip_write(out, raw.p, raw.n, e);
    out_fini(&raw);
    return result ? -1 : 0;
}

static const char *title_of(const struct model_profile *p)
{
    struct str type = model_str(p, p->default_type);
    if (str_starts(type, STR("inuse_")))
        return "Memory in use by";
    return str_starts(type, STR("alloc_")) ? "Memory allocated by" : "CPU time of";
}

static int write_flame_graph(const struct model_profile *p, struct arena *arena,
                             const struct agent_output *o, struct out *out, struct err *e)
{
    bool html = o->format == AGENT_HTML;
    struct report_flame_options options = {
        .type = main_type(p, p->n_types ? p->n_types - 1 : 0),
        .all_types = html,
        .functions = html,
        .max_nodes = html ? REPORT_FLAME_HTML_NODES : REPORT_FLAME_SVG_NODES,
    };
    struct report_flame *flame = report_flame_new(arena, p, &options, e);
    if (!flame)
        return -1;
    char title[256];
    snprintf(title, sizeof title, "%s %s", title_of(p), program_invocation_short_name);
    struct report_flame_style style = {.title = o->title ? o->title : title,
                                       .width = (int)o->width};
    if (html)
        report_flame_html(flame, &style, out);
    else
        report_flame_svg(flame, &style, out);
    return 0;
}

static int write_format(struct model_profile *p, struct arena *arena, const struct agent_output *o,
                        struct out *out, struct err *e)
{
    if (!o->addresses && !o->as_is)
        p = names_fill(p, agent_symbol_memory(), arena, e);
    else if (o->made_code && names_fill_made_code(p, arena, e))
        p = NULL;
    p = p && !o->as_is ? callbacks_apply(p, arena, e) : p;
    if (!p)
        return -1;
    if (o->no_labels)
        p->label_set = NULL;
    switch (o->format) {
    case AGENT_PPROF:
        return write_gzipped_pprof(p, out, e);
    case AGENT_PPROF_PLAIN:
        return codec_write_pprof(p, out, e);
    case AGENT_FOLDED:
        codec_write_folded(p, main_type(p, 0), out);
        return 0;
    case AGENT_JSON:
        codec_write_json(p, out);
        return 0;
    case AGENT_HEAP_TEXT:
        heap_write_text(p, arena, out);
        return 0;
    case AGENT_SVG:
    case AGENT_HTML:
        return write_flame_graph(p, arena, o, out, e);
    }
    return err_set(e, "invalid format %d", (int)o->format);
}

int agent_write(struct model_profile *p, struct arena *arena, const struct agent_output *o,
                struct out *out, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    int result = write_format(p, arena, o, out, e);
    arena_try_end(arena);
    return result;
}
