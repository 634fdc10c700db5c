#include <errno.h>

#include "codec/codec.h"
#include "codec/frame.h"
#include "codec/json.h"
#include "codec/scan.h"

// A frame of the file. Equal frames are written once.
struct shared_frame {
    uint32_t name, file;
    int64_t line, column;
};

struct writer {
    struct arena *arena;
    const struct model_profile *p;
    struct out *out;
    struct model_strings *names;
    struct shared_frame *frames;
    size_t n_frames, cap_frames;
    struct hash_table index;
    uint32_t *first, *ids; // frames of each location, outermost first
};

static uint32_t intern_shared_frame(struct writer *w, struct shared_frame frame)
{
    uint64_t hash = hash_mix(hash_mix(frame.name, frame.file),
                             hash_mix((uint64_t)frame.line, (uint64_t)frame.column));
    for (struct hash_probe at = hash_find(&w->index, hash); hash_hit(&w->index, &at);
         hash_next(&w->index, &at)) {
        const struct shared_frame *f = &w->frames[at.item];
        if (f->name == frame.name && f->file == frame.file && f->line == frame.line &&
            f->column == frame.column)
            return at.item;
    }
    w->frames = arena_push(w->arena, w->frames, w->n_frames, &w->cap_frames, sizeof *w->frames);
    w->frames[w->n_frames] = frame;
    hash_add(&w->index, w->arena, hash, (uint32_t)w->n_frames);
    return (uint32_t)w->n_frames++;
}

static void collect_frames(struct writer *w)
{
    const struct model_profile *p = w->p;
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_locations; i++)
        n += p->locations[i].n_lines ? p->locations[i].n_lines : 1;
    if (n >= MODEL_NONE)
        arena_fail(w->arena, "more than 2^32 frames");
    w->first = arena_array(w->arena, (size_t)p->n_locations + 1, sizeof *w->first);
    w->ids = arena_array(w->arena, n, sizeof *w->ids);
    uint32_t at = 0;
    for (uint32_t i = 0; i < p->n_locations; i++) {
        const struct model_location *l = &p->locations[i];
        w->first[i] = at;
        for (uint32_t k = l->n_lines ? l->n_lines : 1; k-- > 0;) {
            struct shared_frame frame = {
                .name = model_intern(w->names, frame_name(w->arena, p, l, k)),
            };
            if (l->n_lines) {
                const struct model_line *line = &p->lines[l->first_line + k];
                frame.file = p->functions[line->function].filename;
                frame.line = line->line;
                frame.column = line->column;
            }
            w->ids[at++] = intern_shared_frame(w, frame);
        }
    }
    w->first[p->n_locations] = at;
}

static void write_shared_frames(struct writer *w)
{
    struct out *out = w->out;
    for (size_t i = 0; i < w->n_frames; i++) {
        const struct shared_frame *f = &w->frames[i];
        out_text(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        json_write_string(out, w->names->items[f->name]);
        if (f->file) {
            out_text(out, ",\"file\":");
            json_write_string(out, model_str(w->p, f->file));
        }
        if (f->line) {
            out_text(out, ",\"line\":");
            out_i64(out, f->line);
        }
        if (f->column) {
            out_text(out, ",\"col\":");
            out_i64(out, f->column);
        }
        out_char(out, '}');
    }
}

static const char *unit_for(struct str unit)
{
    static const char *const known[][2] = {
        {"nanoseconds", "nanoseconds"},
        {"ns", "nanoseconds"},
        {"microseconds", "microseconds"},
        {"us", "microseconds"},
        {"ms", "milliseconds"},
        {"milliseconds", "milliseconds"},
        {"s", "seconds"},
        {"seconds", "seconds"},
        {"bytes", "bytes"},
        {"byte", "bytes"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_eq(unit, str_from(known[i][0])))
            return known[i][1];
    return "none";
}

static void speedscope_write_stack(struct writer *w, size_t sample)
{
    const uint32_t *stack = model_stack(w->p, sample);
    bool is_first = true;
    out_char(w->out, '[');
    for (uint32_t i = w->p->stack_len[sample]; i-- > 0;) {
        for (uint32_t k = w->first[stack[i]]; k < w->first[stack[i] + 1]; k++) {
            if (!is_first)
                out_char(w->out, ',');
            is_first = false;
            out_u64(w->out, w->ids[k]);
        }
    }
    out_char(w->out, ']');
}

static void speedscope_write_profile(struct writer *w, uint32_t type)
{
    const struct model_profile *p = w->p;
    struct out *out = w->out;
    int64_t sum = 0;
    for (size_t i = 0; i < p->n_samples; i++)
        sum = scan_add(sum, model_values(p, i)[type]);
    out_text(out, "{\"type\":\"sampled\",\"name\":");
    json_write_string(out, model_str(p, p->types[type].type));
    out_printf(out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":",
               unit_for(model_str(p, p->types[type].unit)));
    out_i64(out, sum);
    out_text(out, ",\n\"samples\":[");
    bool is_first = true;
    for (size_t i = 0; i < p->n_samples; i++) {
        if (model_values(p, i)[type] == 0)
            continue;
        out_text(out, is_first ? "\n" : ",\n");
        is_first = false;
        speedscope_write_stack(w, i);
    }
    out_text(out, "],\n\"weights\":[");
    is_first = true;
    for (size_t i = 0; i < p->n_samples; i++) {
        if (model_values(p, i)[type] == 0)
            continue;
        if (!is_first)
            out_char(out, ',');
        is_first = false;
        out_i64(out, model_values(p, i)[type]);
    }
    out_text(out, "]}");
}

static void speedscope_write_file(struct writer *w, struct str name)
{
    const struct model_profile *p = w->p;
    struct out *out = w->out;
    w->names = model_strings_new(w->arena);
    hash_init(&w->index, w->arena, 256);
    collect_frames(w);
    out_text(out,
             "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n\"name\":");
    json_write_string(out, name);
    out_text(out, ",\"exporter\":\"kiln\",\"activeProfileIndex\":");
    int active = model_type_index(p, STR(""), NULL);
    out_i64(out, active > 0 ? active : 0);
    out_text(out, ",\n\"shared\":{\"frames\":[");
    write_shared_frames(w);
    out_text(out, "]},\n\"profiles\":[");
    for (uint32_t i = 0; i < p->n_types; i++) {
        out_text(out, i ? ",\n" : "\n");
        speedscope_write_profile(w, i);
    }
    out_text(out, "]}\n");
}

void codec_write_speedscope(const struct model_profile *p, struct str name, struct out *out)
{
    struct arena *arena = arena_new(0);
    struct arena_trap trap;
    if (!arena || ARENA_TRY(arena, trap)) {
        out->error = out->error ? out->error : ENOMEM;
        arena_free(arena);
        return;
    }
    struct writer w = {.arena = arena, .p = p, .out = out};
    speedscope_write_file(&w, name);
    arena_try_end(arena);
    arena_free(arena);
}
