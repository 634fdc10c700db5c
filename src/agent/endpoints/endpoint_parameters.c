// Parameters and responses that CPU and heap profiles share.
#include <stdio.h>

#include "agent/endpoints/endpoint.h"

enum { VALUE_MAX = 64, LEAST_WIDTH = 200, MOST_WIDTH = 20000 };

static const struct {
    const char *name, *type, *ending; // file extension; NULL: show it instead of downloading it
    bool compress;
} formats[] = {
    [AGENT_PPROF] = {"pprof", "application/octet-stream", "pb.gz", false},
    [AGENT_PPROF_PLAIN] = {NULL, "application/protobuf", "pb", false},
    [AGENT_FOLDED] = {"folded", "text/plain; charset=utf-8", NULL, true},
    [AGENT_SVG] = {"svg", "image/svg+xml", NULL, true},
    [AGENT_HTML] = {"html", "text/html; charset=utf-8", NULL, true},
    [AGENT_JSON] = {"json", "application/json", NULL, true},
    [AGENT_HEAP_TEXT] = {NULL, "text/plain; charset=utf-8", NULL, true},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

// --- parameters: an empty one, as forms send it, counts as missing ---

int endpoint_number(struct str query, const char *name, uint32_t least, uint32_t most,
                    uint32_t *value, struct err *e)
{
    char text[VALUE_MAX];
    uint64_t number;
    int found = http_parameter(query, name, text, sizeof text, e);
    if (found <= 0 || !*text)
        return found < 0 ? -1 : 0;
    if (!str_to_u64(str_from(text), 10, &number) || number < least || number > most)
        return err_set(e, "invalid %s=%s; expected an integer from %u to %u", name, text, least,
                       most);
    *value = (uint32_t)number;
    return 0;
}

int endpoint_switch(struct str query, const char *name, bool *value, struct err *e)
{
    char text[VALUE_MAX];
    int found = http_parameter(query, name, text, sizeof text, e);
    if (found <= 0 || !*text)
        return found < 0 ? -1 : 0;
    bool yes = strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
    if (!yes && strcmp(text, "0") != 0 && strcmp(text, "false") != 0)
        return err_set(e, "invalid %s=%s; expected 0, 1, false or true", name, text);
    *value = yes;
    return 0;
}

static int parse_format(struct str query, enum agent_format *format, struct err *e)
{
    char text[VALUE_MAX];
    int found = http_parameter(query, "format", text, sizeof text, e);
    if (found <= 0 || !*text)
        return found < 0 ? -1 : 0;
    for (size_t i = 0; i < N_FORMATS; i++)
        if (formats[i].name && strcmp(text, formats[i].name) == 0) {
            *format = (enum agent_format)i;
            return 0;
        }
    return err_set(e, "invalid format=%s; expected pprof, svg, folded, html or json", text);
}

int endpoint_output(const struct exchange *x, struct agent_output *o, struct err *e)
{
    struct str query = x->q->query;
    bool names = true, labels = true;
    *o = (struct agent_output){.format = x->route->format, .width = x->route->width};
    if (endpoint_number(query, "image_width", LEAST_WIDTH, MOST_WIDTH, &o->width, e) ||
        endpoint_switch(query, "symbolize", &names, e) ||
        endpoint_switch(query, "labels", &labels, e) || parse_format(query, &o->format, e))
        return -1;
    o->addresses = !names;
    o->no_labels = !labels;
    // TiKV clients request an uncompressed profile this way.
    if (o->format == AGENT_PPROF &&
        http_list_has(http_header(x->q, STR("Content-Type")), STR("application/protobuf")))
        o->format = AGENT_PPROF_PLAIN;
    return 0;
}

void endpoint_describe(struct http_answer *a, enum agent_format format, const char *name)
{
    char text[80];
    a->type = formats[format].type;
    if (formats[format].ending) {
        snprintf(text, sizeof text, "attachment; filename=\"%s.%s\"", name, formats[format].ending);
        http_answer_header(a, "Content-Disposition", text);
    }
    // Flame graphs are self-contained.
    if (format == AGENT_SVG || format == AGENT_HTML)
        http_answer_header(a, "Content-Security-Policy",
                           "default-src 'none'; style-src 'unsafe-inline'; script-src "
                           "'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
                           "frame-ancestors 'none'");
}

void endpoint_answer(const struct http_request *q, struct http_answer *a, struct model_profile *p,
                     struct arena *arena, const struct agent_output *o, const char *name,
                     struct err *e)
{
    if (!p || agent_write(p, arena, o, &a->body, e) || out_finish(&a->body, e)) {
        http_answer_text(a, 503, "%s", e->message);
        return;
    }
    endpoint_describe(a, o->format, name);
    if (formats[o->format].compress)
        endpoint_compress(q, a);
}
