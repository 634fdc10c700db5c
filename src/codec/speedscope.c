#include <jansson.h>

#include "model/builder.h"
#include "codec/codec.h"
#include "codec/detect.h"
#include "codec/scan.h"

// speedscope's JSON: a list of frames that several profiles share. A profile is sampled
// (stacks with weights, root first) or evented (frames opened and closed at times).
enum { MAX_DEPTH = 4096 };

struct unit {
    const char *name; // in the file
    const char *type, *unit;
    int64_t scale; // to kiln's unit
};

static const struct unit units[] = {
    {"nanoseconds", "time", "nanoseconds", 1},
    {"microseconds", "time", "nanoseconds", 1000},
    {"milliseconds", "time", "nanoseconds", 1000 * 1000},
    {"seconds", "time", "nanoseconds", 1000 * 1000 * 1000},
    {"bytes", "space", "bytes", 1},
    {"none", "samples", "count", 1},
};
enum { N_UNITS = sizeof units / sizeof *units, MAX_TYPES = 3 };

// A node of the tree that events walk through.
struct node {
    uint32_t parent, frame; // parent: node + 1
    int64_t value;
};

struct reader {
    struct arena *arena;
    struct err *e;
    struct model_builder b;
    uint32_t *locations; // of each frame
    size_t n_locations;
    const char *types[MAX_TYPES]; // by column
    // The profile that is being read.
    size_t profile;
    bool has_label;
    struct str name;
    const struct unit *unit;
    uint32_t column;
    uint32_t *frames;
    size_t cap_frames;
};

static struct str text_of(const json_t *value)
{
    const char *text = json_string_value(value);
    return text ? (struct str){text, json_string_length(value)} : STR("");
}

static int bad(struct reader *r, const char *what)
{
    return err_set(r->e, "speedscope: profiles[%zu]: %s", r->profile, what);
}

static int read_frames(struct reader *r, const json_t *frames)
{
    if (!json_is_array(frames))
        return err_set(r->e, "speedscope: expected a list of frames at `shared.frames`");
    r->n_locations = json_array_size(frames);
    r->locations = arena_array(r->arena, r->n_locations, sizeof *r->locations);
    for (size_t i = 0; i < r->n_locations; i++) {
        const json_t *frame = json_array_get(frames, i);
        const json_t *name = json_object_get(frame, "name");
        if (!json_is_string(name))
            return err_set(r->e, "speedscope: shared.frames[%zu]: expected an object with a `name`",
                           i);
        uint32_t id = model_build_string(&r->b, text_of(name));
        uint32_t file = model_build_string(&r->b, text_of(json_object_get(frame, "file")));
        struct model_line line = {
            .line = json_integer_value(json_object_get(frame, "line")),
            .column = json_integer_value(json_object_get(frame, "col")),
            .function = model_build_function(&r->b, id, id, file, 0),
        };
        r->locations[i] = model_build_location(&r->b, MODEL_NONE, 0, &line, 1);
    }
    return 0;
}

static const struct unit *unit_of(const json_t *profile)
{
    struct str name = text_of(json_object_get(profile, "unit"));
    for (size_t i = 0; i < N_UNITS; i++)
        if (str_eq(name, str_from(units[i].name)))
            return &units[i];
    return NULL;
}

// One column for each kind of unit that occurs, in the order of occurrence.
static uint32_t column_of(struct reader *r, const struct unit *unit)
{
    uint32_t i = 0;
    while (i < r->b.p->n_types && strcmp(r->types[i], unit->type) != 0)
        i++;
    if (i == r->b.p->n_types) {
        r->types[i] = unit->type;
        model_build_type(&r->b, str_from(unit->type), str_from(unit->unit));
    }
    return i;
}

static bool read_number(const struct reader *r, const json_t *value, int64_t *scaled)
{
    if (json_is_integer(value))
        return !__builtin_mul_overflow((int64_t)json_integer_value(value), r->unit->scale, scaled);
    return json_is_real(value) &&
           scan_round(json_real_value(value) * (double)r->unit->scale, scaled);
}

static bool read_frame(const struct reader *r, const json_t *value, uint32_t *frame)
{
    json_int_t index = json_integer_value(value);
    if (!json_is_integer(value) || index < 0 || (uint64_t)index >= r->n_locations)
        return false;
    *frame = (uint32_t)index;
    return true;
}

static void add_sample(struct reader *r, size_t n_frames, int64_t value)
{
    int64_t values[MAX_TYPES] = {0};
    values[r->column] = value;
    if (r->has_label)
        model_build_label(&r->b, STR("profile"), r->name);
    model_build_sample(&r->b, r->frames, n_frames, values);
}

static void push_frame(struct reader *r, size_t n, uint32_t frame)
{
    r->frames = arena_push(r->arena, r->frames, n, &r->cap_frames, sizeof *r->frames);
    r->frames[n] = r->locations[frame];
}

static int read_sampled(struct reader *r, const json_t *profile)
{
    const json_t *samples = json_object_get(profile, "samples");
    const json_t *weights = json_object_get(profile, "weights");
    if (!json_is_array(samples) || !json_is_array(weights))
        return bad(r, "expected the lists `samples` and `weights`");
    size_t n = json_array_size(samples);
    if (n != json_array_size(weights))
        return bad(r, "there are not as many `weights` as `samples`");
    for (size_t i = 0; i < n; i++) {
        const json_t *stack = json_array_get(samples, i);
        int64_t value;
        if (!json_is_array(stack))
            return bad(r, "a sample is not a list of frames");
        if (!read_number(r, json_array_get(weights, i), &value))
            return bad(r, "a weight is not a number, or too large");
        size_t n_frames = json_array_size(stack);
        for (size_t k = 0; k < n_frames; k++) {
            uint32_t frame;
            if (!read_frame(r, json_array_get(stack, n_frames - 1 - k), &frame))
                return bad(r, "a sample has a frame that is not in `shared.frames`");
            push_frame(r, k, frame);
        }
        if (value)
            add_sample(r, n_frames, value);
    }
    return 0;
}

struct tree {
    struct node *nodes;
    size_t n, cap;
    struct hash_table index;
    uint32_t at; // node + 1; 0: no frame is open
    uint32_t depth;
};

static void open_frame(struct reader *r, struct tree *tree, uint32_t frame)
{
    uint64_t hash = hash_mix(tree->at, frame);
    tree->depth++;
    for (struct hash_probe at = hash_find(&tree->index, hash); hash_hit(&tree->index, &at);
         hash_next(&tree->index, &at)) {
        const struct node *node = &tree->nodes[at.item];
        if (node->parent == tree->at && node->frame == frame) {
            tree->at = at.item + 1;
            return;
        }
    }
    tree->nodes = arena_push(r->arena, tree->nodes, tree->n, &tree->cap, sizeof *tree->nodes);
    tree->nodes[tree->n] = (struct node){.parent = tree->at, .frame = frame};
    hash_add(&tree->index, r->arena, hash, (uint32_t)tree->n);
    tree->at = (uint32_t)++tree->n;
}

static int read_event(struct reader *r, struct tree *tree, const json_t *event, int64_t *last,
                      bool is_first)
{
    struct str type = text_of(json_object_get(event, "type"));
    int64_t at;
    uint32_t frame;
    if (!read_number(r, json_object_get(event, "at"), &at))
        return bad(r, "an event has no time `at`, or one that is too large");
    if (!read_frame(r, json_object_get(event, "frame"), &frame))
        return bad(r, "an event has a frame that is not in `shared.frames`");
    int64_t passed = 0;
    if (!is_first && (at < *last || __builtin_sub_overflow(at, *last, &passed)))
        return bad(r, "the times of the events go backwards");
    *last = at;
    if (tree->at) {
        struct node *node = &tree->nodes[tree->at - 1];
        if (__builtin_add_overflow(node->value, passed, &node->value))
            return bad(r, "the times of the events are too large");
    }
    if (str_eq(type, STR("O"))) {
        if (tree->depth == MAX_DEPTH)
            return bad(r, "more than 4096 frames are open at once");
        open_frame(r, tree, frame);
        return 0;
    }
    if (!str_eq(type, STR("C")))
        return bad(r, "an event is neither of type O nor C");
    if (tree->at == 0 || tree->nodes[tree->at - 1].frame != frame)
        return bad(r, "an event closes a frame that is not the one opened last");
    tree->at = tree->nodes[tree->at - 1].parent;
    tree->depth--;
    return 0;
}

static int read_evented(struct reader *r, const json_t *profile)
{
    const json_t *events = json_object_get(profile, "events");
    if (!json_is_array(events))
        return bad(r, "expected the list `events`");
    struct tree tree = {0};
    hash_init(&tree.index, r->arena, 64);
    int64_t last = 0;
    for (size_t i = 0; i < json_array_size(events); i++)
        if (read_event(r, &tree, json_array_get(events, i), &last, i == 0))
            return -1;
    for (size_t i = 0; i < tree.n; i++) {
        if (tree.nodes[i].value == 0)
            continue;
        size_t n = 0;
        for (uint32_t at = (uint32_t)i + 1; at; at = tree.nodes[at - 1].parent)
            push_frame(r, n++, tree.nodes[at - 1].frame);
        add_sample(r, n, tree.nodes[i].value);
    }
    return 0;
}

static int read_profiles(struct reader *r, const json_t *profiles)
{
    if (!json_is_array(profiles))
        return err_set(r->e, "speedscope: expected a list of profiles at `profiles`");
    size_t n = json_array_size(profiles);
    // All types before the first sample.
    for (r->profile = 0; r->profile < n; r->profile++) {
        const struct unit *unit = unit_of(json_array_get(profiles, r->profile));
        if (!unit)
            return bad(r, "expected a `unit` out of nanoseconds, microseconds, milliseconds, "
                          "seconds, bytes, none");
        column_of(r, unit);
    }
    r->has_label = n > 1;
    for (r->profile = 0; r->profile < n; r->profile++) {
        const json_t *profile = json_array_get(profiles, r->profile);
        r->unit = unit_of(profile);
        r->column = column_of(r, r->unit);
        r->name = text_of(json_object_get(profile, "name"));
        struct str type = text_of(json_object_get(profile, "type"));
        int result;
        if (str_eq(type, STR("sampled")))
            result = read_sampled(r, profile);
        else if (str_eq(type, STR("evented")))
            result = read_evented(r, profile);
        else
            result = bad(r, "its `type` is neither sampled nor evented");
        if (result)
            return result;
    }
    return 0;
}

static struct model_profile *read_root(struct arena *arena, const json_t *root, struct err *e)
{
    struct reader r = {.arena = arena, .e = e};
    model_build(&r.b, arena);
    if (read_frames(&r, json_object_get(json_object_get(root, "shared"), "frames")) ||
        read_profiles(&r, json_object_get(root, "profiles")))
        return NULL;
    struct model_profile *p = r.b.p;
    if (p->n_types == 0)
        model_build_type(&r.b, STR("samples"), STR("count"));
    if (p->n_types > 1) {
        // What the file would show first.
        const json_t *active =
            json_array_get(json_object_get(root, "profiles"),
                           (size_t)json_integer_value(json_object_get(root, "activeProfileIndex")));
        p->default_type = p->types[active ? column_of(&r, unit_of(active)) : 0].type;
    }
    return p;
}

static json_t *load(const uint8_t *data, size_t n, struct err *e)
{
    json_error_t error;
    json_t *root = json_loadb(n ? (const char *)data : "", n, JSON_ALLOW_NUL, &error);
    if (!root)
        err_set(e, "speedscope: byte %d: not JSON: %s", error.position,
                scan_quote(str_from(error.text)).text);
    return root;
}

struct model_profile *codec_read_speedscope(struct arena *arena, const uint8_t *data, size_t n,
                                            struct err *e)
{
    json_t *root = load(data, n, e);
    if (!root)
        return NULL;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        json_decref(root);
        arena_caught(arena, e);
        return NULL;
    }
    struct model_profile *p = read_root(arena, root, e);
    arena_try_end(arena);
    json_decref(root);
    return p;
}

static struct str copy_text(struct arena *arena, const json_t *value)
{
    struct str text = text_of(value);
    return (struct str){arena_copy(arena, text.p, text.n), text.n};
}

static int read_each(struct arena *arena, json_t *root, struct codec_speedscope **each, size_t *n,
                     struct err *e)
{
    json_t *profiles = json_object_get(root, "profiles");
    if (!json_is_array(profiles))
        return err_set(e, "speedscope: expected a list of profiles at `profiles`");
    *n = json_array_size(profiles);
    *each = arena_array(arena, *n + 1, sizeof **each);
    for (size_t i = 0; i < *n; i++) {
        json_t *profile = json_array_get(profiles, i);
        struct reader r = {.arena = arena, .e = e};
        model_build(&r.b, arena);
        json_t *one = json_pack("[O]", profile);
        int result = read_frames(&r, json_object_get(json_object_get(root, "shared"), "frames"));
        if (!result && one)
            result = read_profiles(&r, one);
        json_decref(one);
        if (result || !one)
            return -1;
        (*each)[i] = (struct codec_speedscope){
            .name = copy_text(arena, json_object_get(profile, "name")),
            .unit = copy_text(arena, json_object_get(profile, "unit")),
            .type = copy_text(arena, json_object_get(profile, "type")),
            .start = json_number_value(json_object_get(profile, "startValue")),
            .profile = r.b.p,
        };
    }
    return 0;
}

int codec_read_speedscope_each(struct arena *arena, const uint8_t *data, size_t n,
                               struct codec_speedscope **each, size_t *n_each, struct err *e)
{
    json_t *root = load(data, n, e);
    if (!root)
        return -1;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        json_decref(root);
        return arena_caught(arena, e);
    }
    int result = read_each(arena, root, each, n_each, e);
    arena_try_end(arena);
    json_decref(root);
    return result;
}

bool codec_looks_like_speedscope(struct str head)
{
    struct str text = str_trim(head);
    if (text.n == 0 || text.p[0] != '{')
        return false;
    return scan_contains(text, STR("https://www.speedscope.app/file-format-schema.json")) ||
           (scan_contains(text, STR("\"profiles\"")) && scan_contains(text, STR("\"shared\"")));
}
