#include "codec/json.h"

#include <errno.h>

#include "codec/codec.h"

size_t json_utf8_length(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80)
        return 1;
    size_t length = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
                    : p[0] >= 0xe0 && p[0] <= 0xef ? 3
                    : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                                   : 0;
    if (length == 0 || n < length)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool is_bad = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
                  (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f);
    return is_bad ? 0 : length;
}

static void write_escape(struct out *out, unsigned char c)
{
    static const char short_forms[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (size_t i = 0; i + 1 < sizeof short_forms; i += 2) {
        if ((unsigned char)short_forms[i] == c) {
            out_char(out, '\\');
            out_char(out, short_forms[i + 1]);
            return;
        }
    }
    out_printf(out, "\\u%04x", c);
}

void json_write_string(struct out *out, struct str s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t written = 0;
    out_char(out, '"');
    for (size_t i = 0; i < s.n;) {
        size_t length = json_utf8_length(p + i, s.n - i);
        if (length && p[i] >= 0x20 && p[i] != '"' && p[i] != '\\') {
            i += length;
            continue;
        }
        out_write(out, s.p + written, i - written);
        if (length)
            write_escape(out, p[i]);
        else
            out_text(out, "\xef\xbf\xbd");
        written = ++i;
    }
    if (s.n > written)
        out_write(out, s.p + written, s.n - written);
    out_char(out, '"');
}

void json_write_key(struct out *out, const char *key, bool *is_first)
{
    if (!*is_first)
        out_char(out, ',');
    *is_first = false;
    json_write_string(out, str_from(key));
    out_char(out, ':');
}

void json_write_types(struct out *out, const struct model_profile *p)
{
    out_char(out, '[');
    for (uint32_t i = 0; i < p->n_types; i++) {
        out_text(out, i ? ",[" : "[");
        json_write_string(out, model_str(p, p->types[i].type));
        out_char(out, ',');
        json_write_string(out, model_str(p, p->types[i].unit));
        out_char(out, ']');
    }
    out_char(out, ']');
}

static void write_text_field(struct out *out, const char *key, struct str value, bool *is_first)
{
    if (value.n == 0)
        return;
    json_write_key(out, key, is_first);
    json_write_string(out, value);
}

static void write_number_field(struct out *out, const char *key, int64_t value, bool *is_first)
{
    if (value == 0)
        return;
    json_write_key(out, key, is_first);
    out_i64(out, value);
}

// Writes a string because JSON numbers are exact only up to 2^53.
static void write_address_field(struct out *out, const char *key, uint64_t value, bool *is_first)
{
    if (value == 0)
        return;
    json_write_key(out, key, is_first);
    out_printf(out, "\"0x%llx\"", (unsigned long long)value);
}

static void write_json_type(struct out *out, const struct model_profile *p,
                            struct model_value_type type)
{
    out_text(out, "{\"type\":");
    json_write_string(out, model_str(p, type.type));
    out_text(out, ",\"unit\":");
    json_write_string(out, model_str(p, type.unit));
    out_char(out, '}');
}

static void write_json_line(struct out *out, const struct model_profile *p,
                            const struct model_line *line)
{
    const struct model_function *f = &p->functions[line->function];
    bool is_first = true;
    out_char(out, '{');
    json_write_key(out, "function", &is_first);
    json_write_string(out, model_str(p, f->name));
    if (f->system_name != f->name)
        write_text_field(out, "system_name", model_str(p, f->system_name), &is_first);
    write_text_field(out, "file", model_str(p, f->filename), &is_first);
    write_number_field(out, "line", line->line, &is_first);
    write_number_field(out, "column", line->column, &is_first);
    write_number_field(out, "start_line", f->start_line, &is_first);
    out_char(out, '}');
}

static void write_json_location(struct out *out, const struct model_profile *p,
                                const struct model_location *l)
{
    bool is_first = true;
    out_char(out, '{');
    write_address_field(out, "address", l->address, &is_first);
    if (l->mapping != MODEL_NONE)
        write_text_field(out, "mapping", model_str(p, p->mappings[l->mapping].file), &is_first);
    if (l->is_folded) {
        json_write_key(out, "folded", &is_first);
        out_text(out, "true");
    }
    json_write_key(out, "lines", &is_first);
    out_char(out, '[');
    for (uint32_t i = 0; i < l->n_lines; i++) {
        if (i)
            out_char(out, ',');
        write_json_line(out, p, &p->lines[l->first_line + i]);
    }
    out_text(out, "]}");
}

static void write_json_mapping(struct out *out, const struct model_profile *p,
                               const struct model_mapping *m)
{
    bool is_first = true;
    out_char(out, '{');
    json_write_key(out, "file", &is_first);
    json_write_string(out, model_str(p, m->file));
    write_text_field(out, "build_id", model_str(p, m->build_id), &is_first);
    write_address_field(out, "start", m->start, &is_first);
    write_address_field(out, "limit", m->limit, &is_first);
    write_address_field(out, "offset", m->offset, &is_first);
    out_char(out, '}');
}

// Writes {"key":[value,...],...}. The labels must be of one kind and sorted by key.
static void write_json_labels(struct out *out, const struct model_profile *p,
                              const struct model_label *labels, uint32_t n)
{
    out_char(out, '{');
    for (uint32_t i = 0; i < n;) {
        uint32_t key = labels[i].key;
        if (i)
            out_char(out, ',');
        json_write_string(out, model_str(p, key));
        out_text(out, ":[");
        for (uint32_t from = i; i < n && labels[i].key == key; i++) {
            if (i > from)
                out_char(out, ',');
            if (!labels[i].is_number) {
                json_write_string(out, model_str(p, labels[i].str));
                continue;
            }
            out_text(out, "{\"value\":");
            out_i64(out, labels[i].number);
            if (labels[i].unit) {
                out_text(out, ",\"unit\":");
                json_write_string(out, model_str(p, labels[i].unit));
            }
            out_char(out, '}');
        }
        out_char(out, ']');
    }
    out_char(out, '}');
}

// Each location is rendered once; samples copy the text.
struct rendered {
    struct out text;
    size_t *ends; // end offset of each location in text
};

static void write_json_sample(struct out *out, const struct model_profile *p, size_t sample,
                              const struct rendered *locations)
{
    out_text(out, "{\"values\":[");
    for (uint32_t i = 0; i < p->n_types; i++) {
        if (i)
            out_char(out, ',');
        out_i64(out, model_values(p, sample)[i]);
    }
    out_char(out, ']');
    uint32_t n = 0, strings = 0;
    const struct model_label *labels = model_labels(p, sample, &n);
    while (strings < n && !labels[strings].is_number)
        strings++;
    if (strings) {
        out_text(out, ",\"labels\":");
        write_json_labels(out, p, labels, strings);
    }
    if (strings < n) {
        out_text(out, ",\"number_labels\":");
        write_json_labels(out, p, labels + strings, n - strings);
    }
    out_text(out, ",\"stack\":[");
    for (uint32_t i = p->stack_len[sample]; i-- > 0;) {
        uint32_t l = model_stack(p, sample)[i];
        size_t from = l ? locations->ends[l - 1] : 0;
        out_write(out, locations->text.p + from, locations->ends[l] - from);
        if (i)
            out_char(out, ',');
    }
    out_text(out, "]}");
}

static void write_json_header(struct out *out, const struct model_profile *p)
{
    bool is_first = true;
    json_write_key(out, "sample_types", &is_first);
    out_char(out, '[');
    for (uint32_t i = 0; i < p->n_types; i++) {
        if (i)
            out_char(out, ',');
        write_json_type(out, p, p->types[i]);
    }
    out_char(out, ']');
    write_text_field(out, "default_sample_type", model_str(p, p->default_type), &is_first);
    if (p->period_type.type || p->period_type.unit) {
        json_write_key(out, "period_type", &is_first);
        write_json_type(out, p, p->period_type);
    }
    write_number_field(out, "period", p->period, &is_first);
    write_number_field(out, "time_nanos", p->time_nanos, &is_first);
    write_number_field(out, "duration_nanos", p->duration_nanos, &is_first);
    write_text_field(out, "drop_frames", model_str(p, p->drop_frames), &is_first);
    write_text_field(out, "keep_frames", model_str(p, p->keep_frames), &is_first);
    write_text_field(out, "doc_url", model_str(p, p->doc_url), &is_first);
    json_write_key(out, "comments", &is_first);
    out_char(out, '[');
    for (uint32_t i = 0; i < p->n_comments; i++) {
        if (i)
            out_char(out, ',');
        json_write_string(out, model_str(p, p->comments[i]));
    }
    out_text(out, "],\"mappings\":[");
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        if (i)
            out_char(out, ',');
        write_json_mapping(out, p, &p->mappings[i]);
    }
    out_char(out, ']');
}

// Writes {"sample_types":[...],...,"samples":[{"values":[...],"labels":{...},"stack":[...]}]}, one
// sample per line. A stack starts at the root. The lines of a location start with the innermost
// inlined call. Absent fields are empty or 0.
void codec_write_json(const struct model_profile *p, struct out *out)
{
    struct rendered locations = {.ends = NULL};
    struct arena *arena = arena_new(0);
    struct arena_trap trap;
    out_init_memory(&locations.text, SIZE_MAX / 4);
    if (!arena || ARENA_TRY(arena, trap)) {
        out->error = out->error ? out->error : ENOMEM;
        arena_free(arena);
        return;
    }
    locations.ends = arena_array(arena, p->n_locations, sizeof *locations.ends);
    arena_try_end(arena);

    for (uint32_t i = 0; i < p->n_locations; i++) {
        write_json_location(&locations.text, p, &p->locations[i]);
        locations.ends[i] = locations.text.n;
    }
    if (locations.text.error) {
        out->error = out->error ? out->error : locations.text.error;
    } else {
        out_char(out, '{');
        write_json_header(out, p);
        out_text(out, ",\"samples\":[");
        for (size_t i = 0; i < p->n_samples; i++) {
            out_text(out, i ? ",\n" : "\n");
            write_json_sample(out, p, i, &locations);
        }
        out_text(out, "\n]}\n");
    }
    out_fini(&locations.text);
    arena_free(arena);
}
