// Writes the tree as JSON for the scripts in src/report/flame: tables of distinct names, and the
// nodes as base64 of variable-length numbers, about ten bytes each.
#include "report/flame_internal.h"

// Streaming base64 encoder.
struct encoder {
    struct out *out;
    uint32_t bits;
    int n; // bytes in bits
};

static void put_base64_group(struct encoder *e)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = e->bits << (8 * (3 - e->n));
    for (int i = 0; i < 4; i++)
        out_char(e->out, i <= e->n ? digits[bits >> (18 - 6 * i) & 63] : '=');
    e->bits = 0;
    e->n = 0;
}

static void put_byte(struct encoder *e, uint8_t byte)
{
    e->bits = e->bits << 8 | byte;
    if (++e->n == 3)
        put_base64_group(e);
}

static void put_base64_number(struct encoder *e, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_byte(e, (uint8_t)(value | 0x80));
    put_byte(e, (uint8_t)value);
}

static void put_end(struct encoder *e)
{
    if (e->n)
        put_base64_group(e);
}

// Writes only self values, because totals follow from them; most are zero. For each node: how many
// levels above the previous node its parent is, frame and inline flags, self values.
static void write_tree(const struct report_flame *f, struct out *out)
{
    struct encoder e = {.out = out};
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        if (i)
            put_base64_number(&e, f->depth[i - 1] + 1 - f->depth[i]);
        put_base64_number(&e, (uint64_t)f->frame[i] << 2 |
                                  (f->flags[i] & (REPORT_FLAME_INLINED | REPORT_FLAME_PARTLY)));
        for (uint32_t c = 0; c < f->n_columns; c++)
            put_base64_number(&e, (uint64_t)f->self[(size_t)i * f->n_columns + c]);
    }
    put_end(&e);
}

static void write_functions(const struct report_flame *f, struct out *out)
{
    struct encoder e = {.out = out};
    for (size_t i = 0; f->frame_self && i < (size_t)f->n_frames * f->n_columns; i++) {
        put_base64_number(&e, (uint64_t)f->frame_self[i]);
        put_base64_number(&e, (uint64_t)f->frame_total[i]);
    }
    put_end(&e);
}

static uint32_t utf16_length(struct str s)
{
    uint32_t n = 0;
    while (s.n)
        n += flame_next_char(&s) >= 0x10000 ? 2 : 1;
    return n;
}

// Writes one number per frame.
static void write_column(const struct report_flame *f, struct out *out, const char *name,
                         int64_t (*get)(const struct report_flame_frame *))
{
    out_printf(out, ",\"%s\":[", name);
    for (uint32_t i = 0; i < f->n_frames; i++) {
        out_text(out, i ? "," : "");
        out_i64(out, get(&f->frames[i]));
    }
    out_char(out, ']');
}

static int64_t short_of(const struct report_flame_frame *frame)
{
    return utf16_length(str_from_to(frame->name, 0, frame->short_at));
}

static int64_t shade_of(const struct report_flame_frame *frame)
{
    return flame_shade(frame->name);
}

static int64_t frame_line(const struct report_flame_frame *frame)
{
    return frame->line;
}

static int64_t frame_group(const struct report_flame_frame *frame)
{
    return frame->group;
}

static int64_t frame_file_text(const struct report_flame_frame *frame)
{
    return frame->file_text;
}

static int64_t frame_module_text(const struct report_flame_frame *frame)
{
    return frame->module_text;
}

static void write_frame_tables(const struct report_flame *f, struct out *out)
{
    out_text(out, ",\"names\":[");
    for (uint32_t i = 0; i < f->n_frames; i++) {
        out_text(out, i ? ",\n" : "");
        flame_write_json(out, f->frames[i].name);
    }
    out_char(out, ']');
    write_column(f, out, "short", short_of);
    write_column(f, out, "shade", shade_of);
    write_column(f, out, "line", frame_line);
    write_column(f, out, "group", frame_group);
    write_column(f, out, "file", frame_file_text);
    write_column(f, out, "module", frame_module_text);
    out_text(out, ",\"texts\":[");
    for (uint32_t i = 0; i < f->n_texts; i++) {
        out_text(out, i ? "," : "");
        flame_write_json(out, f->texts[i]);
    }
    out_char(out, ']');
    out_text(out, ",\"groups\":[");
    for (uint32_t i = 0; i < f->n_groups; i++) {
        out_text(out, i ? ",[" : "[");
        flame_write_json(out, f->groups[i].name);
        out_printf(out, ",%d,%d]", f->groups[i].muted, f->groups[i].colour);
    }
    out_char(out, ']');
}

static void write_noise(const struct report_flame *f, struct out *out)
{
    out_text(out, ",\"noise\":[");
    for (uint32_t t = 0; f->noise && t < f->n_types; t++) {
        const struct report_flame_noise *n = &f->noise[t];
        out_text(out, t ? "," : "");
        if (n->weight[0] > 0)
            out_printf(out, "[%.9g,%.9g,%.9g,%.9g,%.9g]", n->weight[0], n->weight[1], n->scale,
                       n->dispersion, n->uncertainty);
        else
            out_text(out, "null");
    }
    out_char(out, ']');
}

// Writes four bits per hexadecimal digit, lowest bit first.
static void write_bits(struct out *out, const bool *bits, uint32_t n)
{
    out_char(out, '"');
    for (uint32_t i = 0; bits && i < n; i += 4) {
        unsigned digit = 0;
        for (uint32_t k = 0; k < 4 && i + k < n; k++)
            digit |= (unsigned)bits[i + k] << k;
        out_char(out, "0123456789abcdef"[digit]);
    }
    out_char(out, '"');
}

// Writes what changed in the first type: nodes, self values of functions, totals of functions.
static void write_marks(const struct report_flame *f, struct out *out)
{
    out_text(out, ",\"marks\":");
    if (!f->changed) {
        out_text(out, "null");
        return;
    }
    out_char(out, '[');
    write_bits(out, f->changed, f->n_nodes);
    out_char(out, ',');
    write_bits(out, f->frame_self_changed, f->n_frames);
    out_char(out, ',');
    write_bits(out, f->frame_total_changed, f->n_frames);
    out_char(out, ']');
}

void report_flame_json(const struct report_flame *f, const struct report_flame_style *style,
                       struct out *out)
{
    out_text(out, "{\"title\":");
    flame_write_json(out, str_from(flame_title(f, style)));
    out_text(out, ",\"subtitle\":");
    flame_write_json(out, str_from(style->subtitle ? style->subtitle : ""));
    out_printf(out, ",\"diff\":%d,\"reverse\":%d,\"normalize\":%d,\"flip\":%d,\"merged\":%u",
               f->diff, f->reverse, f->normalize, style->flip, f->merged);
    out_text(out, ",\"types\":[");
    for (uint32_t t = 0; t < f->n_types; t++) {
        out_text(out, t ? ",[" : "[");
        flame_write_json(out, f->types[t].type);
        out_char(out, ',');
        flame_write_json(out, f->types[t].unit);
        out_char(out, ',');
        out_i64(out, f->types[t].negative);
        out_char(out, ']');
    }
    out_char(out, ']');
    write_noise(f, out);
    write_marks(f, out);
    write_frame_tables(f, out);
    out_printf(out, ",\"nodes\":%u,\"tree\":\"", f->n_nodes);
    write_tree(f, out);
    out_text(out, "\",\"functions\":\"");
    write_functions(f, out);
    out_text(out, "\"}");
}
