#include "model/builder.h"
#include "codec/codec.h"
#include "codec/detect.h"
#include "codec/json_read.h"
#include "codec/scan.h"

// speedscope's JSON: a list of frames shared by several profiles. A profile is sampled (stacks with
// weights, root first) or evented (open and close events with times).
enum { MAX_DEPTH = 4096 };

struct unit {
    const char *name; // in the file
    const char *type, *unit;
    int64_t scale; // factor to kiln's unit
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

// A node of the call tree built from events.
struct node {
    uint32_t parent, frame; // parent: node + 1
    int64_t value;
};

struct frame {
    struct str name, file;
    int64_t line, column;
    uint32_t location; // in the profile under construction
    size_t built;      // number of the profile that location belongs to
};

struct reader {
    struct arena *arena;
    struct err *e;
    struct model_builder b;
    size_t build; // number of the profile under construction, from 1
    struct frame *all;
    size_t n_all;
    const char *types[MAX_TYPES]; // by column
    // The profile being read.
    size_t profile;
    bool has_label;
    struct str name;
    const struct unit *unit;
    uint32_t column;
    uint32_t *frames;
    size_t cap_frames;
};

// Returns an empty string if there is no such member.
static struct str speedscope_text(const struct reader *r, struct json object, const char *key)
{
    struct str text = json_string(json_get(object, key), r->arena);
    return text.p ? text : STR("");
}

static int64_t speedscope_integer(struct json object, const char *key)
{
    int64_t value;
    return json_i64(json_get(object, key), &value) ? value : 0;
}

static int speedscope_error(struct reader *r, const char *what)
{
    return err_set(r->e, "speedscope: profiles[%zu]: %s", r->profile, what);
}

static int speedscope_read_frames(struct reader *r, struct json root)
{
    struct json frames = json_get(json_get(root, "shared"), "frames");
    if (json_kind(frames) != JSON_ARRAY)
        return err_set(r->e, "speedscope: expected a list of frames at `shared.frames`");
    r->all = arena_array(r->arena, json_size(frames) + 1, sizeof *r->all);
    for (struct json_each i = json_each(frames); json_next(&i); r->n_all++) {
        struct str name = json_string(json_get(i.value, "name"), r->arena);
        if (!name.p)
            return err_set(r->e, "speedscope: shared.frames[%zu]: expected an object with a `name`",
                           r->n_all);
        r->all[r->n_all] = (struct frame){
            .name = name,
            .file = speedscope_text(r, i.value, "file"),
            .line = speedscope_integer(i.value, "line"),
            .column = speedscope_integer(i.value, "col"),
        };
    }
    return 0;
}

static uint32_t speedscope_location_of(struct reader *r, struct frame *f)
{
    if (f->built == r->build)
        return f->location;
    uint32_t id = model_build_string(&r->b, f->name);
    uint32_t file = model_build_string(&r->b, f->file);
    struct model_line line = {
        .line = f->line,
        .column = f->column,
        .function = model_build_function(&r->b, id, id, file, 0),
    };
    f->location = model_build_location(&r->b, MODEL_NONE, 0, &line, 1);
    f->built = r->build;
    return f->location;
}

static const struct unit *speedscope_unit_of(const struct reader *r, struct json profile)
{
    struct str name = speedscope_text(r, profile, "unit");
    for (size_t i = 0; i < N_UNITS; i++)
        if (str_eq(name, str_from(units[i].name)))
            return &units[i];
    return NULL;
}

// Returns the column of a unit. Columns are created in order of occurrence, one per sample type.
static uint32_t speedscope_column_of(struct reader *r, const struct unit *unit)
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

static bool speedscope_read_number(const struct reader *r, struct json value, int64_t *scaled)
{
    int64_t integer;
    double real;
    if (json_i64(value, &integer))
        return !__builtin_mul_overflow(integer, r->unit->scale, scaled);
    return json_double(value, &real) && scan_round(real * (double)r->unit->scale, scaled);
}

static bool speedscope_read_frame(const struct reader *r, struct json value, uint32_t *frame)
{
    int64_t index;
    if (!json_i64(value, &index) || index < 0 || (uint64_t)index >= r->n_all)
        return false;
    *frame = (uint32_t)index;
    return true;
}

static void speedscope_add_sample(struct reader *r, size_t n_frames, int64_t value)
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
    r->frames[n] = speedscope_location_of(r, &r->all[frame]);
}

static int speedscope_read_stack(struct reader *r, struct json stack, size_t *n)
{
    *n = 0;
    if (json_kind(stack) != JSON_ARRAY)
        return speedscope_error(r, "a sample is not a list of frames");
    for (struct json_each i = json_each(stack); json_next(&i);) {
        uint32_t frame;
        if (!speedscope_read_frame(r, i.value, &frame))
            return speedscope_error(r, "a sample has a frame that is not in `shared.frames`");
        push_frame(r, (*n)++, frame);
    }
    for (size_t i = 0; i < *n / 2; i++) { // the file has the root first, the model last
        uint32_t swapped = r->frames[i];
        r->frames[i] = r->frames[*n - 1 - i];
        r->frames[*n - 1 - i] = swapped;
    }
    return 0;
}

static int read_sampled(struct reader *r, struct json profile)
{
    struct json samples = json_get(profile, "samples"), weights = json_get(profile, "weights");
    if (json_kind(samples) != JSON_ARRAY || json_kind(weights) != JSON_ARRAY)
        return speedscope_error(r, "expected the lists `samples` and `weights`");
    if (json_size(samples) != json_size(weights))
        return speedscope_error(r, "there are not as many `weights` as `samples`");
    struct json_each weight = json_each(weights);
    for (struct json_each i = json_each(samples); json_next(&i) && json_next(&weight);) {
        int64_t value;
        size_t n_frames;
        if (!speedscope_read_number(r, weight.value, &value))
            return speedscope_error(r, "a weight is not a number, or too large");
        if (speedscope_read_stack(r, i.value, &n_frames))
            return -1;
        if (value)
            speedscope_add_sample(r, n_frames, value);
    }
    return 0;
}

struct tree {
    struct node *nodes;
    size_t n, cap;
    struct hash_table index;
    uint32_t at; // current node + 1; 0: no frame is open
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

static int speedscope_read_event(struct reader *r, struct tree *tree, struct json event,
                                 int64_t *last, bool is_first)
{
    struct json type = json_get(event, "type");
    int64_t at;
    uint32_t frame;
    if (!speedscope_read_number(r, json_get(event, "at"), &at))
        return speedscope_error(r, "an event has no time `at`, or one that is too large");
    if (!speedscope_read_frame(r, json_get(event, "frame"), &frame))
        return speedscope_error(r, "an event has a frame that is not in `shared.frames`");
    int64_t passed = 0;
    if (!is_first && (at < *last || __builtin_sub_overflow(at, *last, &passed)))
        return speedscope_error(r, "the times of the events go backwards");
    *last = at;
    if (tree->at) {
        struct node *node = &tree->nodes[tree->at - 1];
        if (__builtin_add_overflow(node->value, passed, &node->value))
            return speedscope_error(r, "the times of the events are too large");
    }
    if (json_is(type, "O")) {
        if (tree->depth == MAX_DEPTH)
            return speedscope_error(r, "more than 4096 frames are open at once");
        open_frame(r, tree, frame);
        return 0;
    }
    if (!json_is(type, "C"))
        return speedscope_error(r, "an event is neither of type O nor C");
    if (tree->at == 0 || tree->nodes[tree->at - 1].frame != frame)
        return speedscope_error(r, "an event closes a frame that is not the one opened last");
    tree->at = tree->nodes[tree->at - 1].parent;
    tree->depth--;
    return 0;
}

static int read_evented(struct reader *r, struct json profile)
{
    struct json events = json_get(profile, "events");
    if (json_kind(events) != JSON_ARRAY)
        return speedscope_error(r, "expected the list `events`");
    struct tree tree = {0};
    hash_init(&tree.index, r->arena, 64);
    int64_t last = 0;
    bool is_first = true;
    for (struct json_each i = json_each(events); json_next(&i); is_first = false)
        if (speedscope_read_event(r, &tree, i.value, &last, is_first))
            return -1;
    for (size_t i = 0; i < tree.n; i++) {
        if (tree.nodes[i].value == 0)
            continue;
        size_t n = 0;
        for (uint32_t at = (uint32_t)i + 1; at; at = tree.nodes[at - 1].parent)
            push_frame(r, n++, tree.nodes[at - 1].frame);
        speedscope_add_sample(r, n, tree.nodes[i].value);
    }
    return 0;
}

static int check_unit(struct reader *r, struct json profile)
{
    const struct unit *unit = speedscope_unit_of(r, profile);
    if (!unit)
        return speedscope_error(r,
                                "expected a `unit` out of nanoseconds, microseconds, milliseconds, "
                                "seconds, bytes, none");
    speedscope_column_of(r, unit);
    return 0;
}

static int speedscope_read_profile(struct reader *r, struct json profile)
{
    r->unit = speedscope_unit_of(r, profile);
    r->column = speedscope_column_of(r, r->unit);
    r->name = speedscope_text(r, profile, "name");
    struct json type = json_get(profile, "type");
    if (json_is(type, "sampled"))
        return read_sampled(r, profile);
    if (json_is(type, "evented"))
        return read_evented(r, profile);
    return speedscope_error(r, "its `type` is neither sampled nor evented");
}

static int find_profiles(struct reader *r, struct json root, struct json *profiles)
{
    *profiles = json_get(root, "profiles");
    if (json_kind(*profiles) != JSON_ARRAY)
        return err_set(r->e, "speedscope: expected a list of profiles at `profiles`");
    return 0;
}

static int speedscope_read_profiles(struct reader *r, struct json root)
{
    struct json profiles;
    if (find_profiles(r, root, &profiles))
        return -1;
    // All types must exist before the first sample.
    for (struct json_each i = json_each(profiles); json_next(&i); r->profile++)
        if (check_unit(r, i.value))
            return -1;
    r->has_label = r->profile > 1;
    r->profile = 0;
    for (struct json_each i = json_each(profiles); json_next(&i); r->profile++)
        if (speedscope_read_profile(r, i.value))
            return -1;
    return 0;
}

static void begin_build(struct reader *r)
{
    memset(&r->b, 0, sizeof r->b);
    model_build(&r->b, r->arena);
    r->build++;
}

// Returns the column of the profile that speedscope would show first.
static uint32_t active_column(struct reader *r, struct json root)
{
    int64_t active = speedscope_integer(root, "activeProfileIndex"), at = 0;
    for (struct json_each i = json_each(json_get(root, "profiles")); json_next(&i); at++)
        if (at == active)
            return speedscope_column_of(r, speedscope_unit_of(r, i.value));
    return 0;
}

static struct model_profile *speedscope_read_root(struct reader *r, struct json root)
{
    begin_build(r);
    if (speedscope_read_frames(r, root))
        return NULL;
    for (size_t i = 0; i < r->n_all; i++)
        speedscope_location_of(r, &r->all[i]);
    if (speedscope_read_profiles(r, root))
        return NULL;
    struct model_profile *p = r->b.p;
    if (p->n_types == 0)
        model_build_type(&r->b, STR("samples"), STR("count"));
    if (p->n_types > 1)
        p->default_type = p->types[active_column(r, root)].type;
    return p;
}

static int speedscope_parse_json(struct arena *arena, const uint8_t *data, size_t n,
                                 struct json *root, struct err *e)
{
    if (json_parse(arena, (struct str){(const char *)data, n}, root, e))
        return err_prefix(e, "speedscope: not JSON: ");
    return 0;
}

struct model_profile *codec_read_speedscope(struct arena *arena, const uint8_t *data, size_t n,
                                            struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    struct reader r = {.arena = arena, .e = e};
    struct json root;
    struct model_profile *p =
        speedscope_parse_json(arena, data, n, &root, e) ? NULL : speedscope_read_root(&r, root);
    arena_try_end(arena);
    return p;
}

// Copies the text, so that it does not point into the file.
static struct str speedscope_copy_text(const struct reader *r, struct json object, const char *key)
{
    struct str text = speedscope_text(r, object, key);
    return (struct str){arena_copy(r->arena, text.p, text.n), text.n};
}

static int speedscope_read_each(struct reader *r, struct json root, struct codec_speedscope **each,
                                size_t *n)
{
    struct json profiles;
    if (find_profiles(r, root, &profiles) || speedscope_read_frames(r, root))
        return -1;
    *n = json_size(profiles);
    *each = arena_array(r->arena, *n + 1, sizeof **each);
    for (struct json_each i = json_each(profiles); json_next(&i); r->profile++) {
        struct codec_speedscope *to = &(*each)[r->profile];
        begin_build(r);
        if (check_unit(r, i.value) || speedscope_read_profile(r, i.value))
            return -1;
        *to = (struct codec_speedscope){
            .name = speedscope_copy_text(r, i.value, "name"),
            .unit = speedscope_copy_text(r, i.value, "unit"),
            .type = speedscope_copy_text(r, i.value, "type"),
            .profile = r->b.p,
        };
        if (!json_double(json_get(i.value, "startValue"), &to->start))
            to->start = 0;
    }
    return 0;
}

int codec_read_speedscope_each(struct arena *arena, const uint8_t *data, size_t n,
                               struct codec_speedscope **each, size_t *n_each, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    struct reader r = {.arena = arena, .e = e};
    struct json root;
    int result = speedscope_parse_json(arena, data, n, &root, e)
                     ? -1
                     : speedscope_read_each(&r, root, each, n_each);
    arena_try_end(arena);
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
