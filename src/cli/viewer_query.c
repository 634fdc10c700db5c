// Request parameters, and data that goes with every answer.
#include "cli/viewer.h"

#include "codec/json.h"

enum { NOTES_MAX = 16, VALUE_MAX = HTTP_LINE_MAX };

const char *viewer_parameter(struct viewer_query *q, const char *name, struct err *e)
{
    char text[VALUE_MAX];
    int found = http_parameter(q->request->query, name, text, sizeof text, e);
    if (found < 0)
        return NULL;
    return found ? arena_copy(q->arena, text, strlen(text)) : "";
}

bool viewer_flag(struct viewer_query *q, const char *name)
{
    char text[16];
    return http_parameter(q->request->query, name, text, sizeof text, NULL) > 0 &&
           config_parse_bool(text) == 1;
}

int viewer_read_config(struct viewer_query *q, struct err *e)
{
    q->config = q->viewer->config;
    for (const struct config_field *f = config_fields; f->name; f++) {
        char text[VALUE_MAX];
        const char *name = config_url_name(f);
        int found = name ? http_parameter(q->request->query, name, text, sizeof text, e) : 0;
        if (found < 0)
            return -1;
        if (found > 0 && config_set(&q->config, f, arena_copy(q->arena, text, strlen(text)), e))
            return -1;
    }
    return 0;
}

// Not locked: only the worker reports, one answer at a time.
static char notes[NOTES_MAX][160];
static size_t n_notes;

void viewer_note(const char *text)
{
    if (n_notes == NOTES_MAX)
        return;
    size_t n = strlen(text);
    if (n >= sizeof notes[0])
        n = sizeof notes[0] - 1;
    memcpy(notes[n_notes], text, n);
    notes[n_notes++][n] = '\0';
}

void viewer_write_notes(struct out *out)
{
    out_text(out, "\"notes\":[");
    for (size_t i = 0; i < n_notes; i++) {
        out_text(out, i ? "," : "");
        json_write_string(out, str_from(notes[i]));
    }
    out_char(out, ']');
    n_notes = 0;
}

static void write_meta_text(struct out *out, const char *key, const char *text)
{
    out_printf(out, ",\"%s\":", key);
    json_write_string(out, str_from(text));
}

void viewer_write_meta(const struct viewer *viewer, struct out *out)
{
    const struct model_profile *p = viewer->p;
    struct err e;
    out_printf(out, "{\"version\":\"%s\"", KILN_VERSION);
    write_meta_text(out, "title", viewer->title);
    int type = model_type_index(p, str_from(viewer->config.sample_index), &e);
    out_printf(out, ",\"diff\":%d,\"type\":%d,\"samples\":%zu,\"time\":%lld,\"duration\":%lld",
               viewer->sides[0] != NULL, type < 0 ? 0 : type, p->n_samples,
               (long long)(p->time_nanos / 1000000), (long long)p->duration_nanos);
    out_text(out, ",\"types\":");
    json_write_types(out, p);
    out_text(out, ",\"comments\":[");
    for (uint32_t i = 0; i < p->n_comments; i++) {
        out_text(out, i ? "," : "");
        json_write_string(out, model_str(p, p->comments[i]));
    }
    out_text(out, "],\"doc\":");
    json_write_string(out, model_str(p, p->doc_url));
    // Settings from the command line: pages show them, and URLs can change them.
    out_text(out, ",\"config\":{");
    bool first = true;
    struct config plain = config_default();
    for (const struct config_field *f = config_fields; f->name; f++) {
        char value[1024], usual[1024];
        const char *name = config_url_name(f);
        if (!name)
            continue;
        config_get(&viewer->config, f, value, sizeof value);
        config_get(&plain, f, usual, sizeof usual);
        if (strcmp(value, usual) == 0)
            continue;
        json_write_key(out, name, &first);
        json_write_string(out, str_from(value));
    }
    out_text(out, "},\"configs\":");
    viewer_write_configs(out);
    out_char(out, '}');
}
