#include "codec/otlp.h"

#include "codec/otlp_message.h"
#include "model/builder.h"

enum sample_version { VERSION_9, VERSION_10 };

struct otlp {
    struct arena *arena;
    struct err *e;
    bool json;
    const struct otlp_dictionary *d;
    enum sample_version version;
    struct otlp_profile *profiles;
    size_t n, cap;
};

// A profile under construction: the samples of one service.
struct group {
    struct model_builder b;
    uint32_t *mappings, *functions, *locations; // by dictionary index; MODEL_NONE: not built yet
    uint32_t *frames;
    size_t cap_frames;
};

static const void *list_item(const struct message_list *list, int64_t index, size_t size)
{
    return index >= 0 && (uint64_t)index < list->n
               ? (const char *)list->items + (size_t)index * size
               : NULL;
}

#define AT(list, index, type) ((const type *)list_item(&(list), (index), sizeof(type)))

static int index_error(struct otlp *o, const char *table, int64_t index)
{
    return err_set(o->e, "OTLP: index %lld is outside the dictionary's %s", (long long)index,
                   table);
}

static int string_at(struct otlp *o, int64_t index, struct str *s)
{
    const struct str *found = AT(o->d->strings, index, struct str);
    if (!found && index == 0) {
        *s = STR("");
        return 0;
    }
    if (!found)
        return index_error(o, "string_table", index);
    *s = *found;
    return 0;
}

// Looks up an attribute and its key.
static int attribute_at(struct otlp *o, int64_t index, const struct otlp_indexed **attribute,
                        struct str *key)
{
    *attribute = AT(o->d->attributes, index, struct otlp_indexed);
    if (!*attribute)
        return index_error(o, "attribute_table", index);
    return string_at(o, (*attribute)->key, key);
}

// Returns a value as label text; empty if it has no simple text form.
static struct str attribute_text(struct otlp *o, const struct otlp_value *v)
{
    struct str text = STR("");
    if (!v)
        return text;
    if (v->array && v->array->values.n == 1)
        v = v->array->values.items;
    if (v->string.n)
        return v->string;
    if (v->strindex)
        return string_at(o, v->strindex, &text) ? STR("") : text;
    if (v->integer)
        return str_from(arena_printf(o->arena, "%lld", (long long)v->integer));
    if (v->boolean)
        return STR("true");
    if (v->real != 0)
        return str_from(arena_printf(o->arena, "%.17g", v->real));
    return text;
}

// --- versions ---

// Returns the version that one sample proves, or -1 if both are possible.
static int sample_version_of(const struct otlp_sample *s)
{
    if ((s->three.n && !s->three.packed) || (s->four.n && s->four.packed))
        return VERSION_10;
    if ((s->three.n && s->three.packed) || (s->four.n && !s->four.packed))
        return VERSION_9;
    // Only field 2 is set: values in 1.9, attributes in 1.10. But 1.10 requires timestamps then.
    if (s->two.n && !s->timestamps.n)
        return VERSION_9;
    return -1;
}

static enum sample_version find_sample_version(const struct otlp_request *r)
{
    const struct otlp_resource_profiles *resources = r->resources.items;
    for (size_t i = 0; i < r->resources.n; i++) {
        const struct otlp_scope_profiles *scopes = resources[i].scopes.items;
        for (size_t j = 0; j < resources[i].scopes.n; j++) {
            const struct otlp_raw_profile *profiles = scopes[j].profiles.items;
            for (size_t k = 0; k < scopes[j].profiles.n; k++) {
                const struct otlp_sample *samples = profiles[k].samples.items;
                for (size_t l = 0; l < profiles[k].samples.n; l++) {
                    int says = sample_version_of(&samples[l]);
                    if (says >= 0)
                        return (enum sample_version)says;
                }
            }
        }
    }
    return VERSION_9;
}

static void assign_sample_fields(const struct otlp *o, struct otlp_sample *s)
{
    if (o->json)
        return;
    const struct message_list *link;
    if (o->version == VERSION_9) {
        s->values = s->two;
        s->attributes = s->three;
        link = &s->four;
    } else {
        s->attributes = s->two;
        link = &s->three;
        s->values = s->four;
    }
    s->link = link->n ? ((const int64_t *)link->items)[0] : 0;
}

// --- tables ---

static uint32_t *new_index_map(struct otlp *o, size_t n)
{
    uint32_t *list = arena_array(o->arena, n + 1, sizeof *list);
    memset(list, 0xff, (n + 1) * sizeof *list);
    return list;
}

static int otlp_build_mapping(struct otlp *o, struct group *g, int64_t index, uint32_t *mapping)
{
    const struct otlp_mapping *m = AT(o->d->mappings, index, struct otlp_mapping);
    *mapping = MODEL_NONE;
    if (!m)
        return index ? index_error(o, "mapping_table", index) : 0;
    if (index == 0 && !m->limit && !m->filename)
        return 0; // entry 0 means no mapping
    if (g->mappings[index] == MODEL_NONE) {
        struct str file, build_id = STR("");
        if (string_at(o, m->filename, &file))
            return -1;
        const int64_t *attributes = m->attributes.items;
        for (size_t i = 0; i < m->attributes.n; i++) {
            const struct otlp_indexed *a;
            struct str key;
            if (attribute_at(o, attributes[i], &a, &key))
                return -1;
            if (str_eq(key, STR("process.executable.build_id.gnu")))
                build_id = attribute_text(o, a->value);
        }
        g->mappings[index] =
            model_build_mapping(&g->b, (struct model_mapping){
                                           .start = (uint64_t)m->start,
                                           .limit = (uint64_t)m->limit,
                                           .offset = (uint64_t)m->offset,
                                           .file = model_build_string(&g->b, file),
                                           .build_id = model_build_string(&g->b, build_id),
                                       });
    }
    *mapping = g->mappings[index];
    return 0;
}

static int otlp_build_function(struct otlp *o, struct group *g, int64_t index, uint32_t *function)
{
    const struct otlp_function *f = AT(o->d->functions, index, struct otlp_function);
    if (!f)
        return index_error(o, "function_table", index);
    if (g->functions[index] == MODEL_NONE) {
        struct str name, system_name, file;
        if (string_at(o, f->name, &name) || string_at(o, f->system_name, &system_name) ||
            string_at(o, f->filename, &file))
            return -1;
        g->functions[index] = model_build_function(&g->b, model_build_string(&g->b, name),
                                                   model_build_string(&g->b, system_name),
                                                   model_build_string(&g->b, file), f->start_line);
    }
    *function = g->functions[index];
    return 0;
}

static int otlp_build_location(struct otlp *o, struct group *g, int64_t index, uint32_t *location)
{
    const struct otlp_location *l = AT(o->d->locations, index, struct otlp_location);
    if (!l)
        return index_error(o, "location_table", index);
    if (g->locations[index] == MODEL_NONE) {
        const struct otlp_line *lines = l->lines.items;
        struct model_line *built = arena_array(o->arena, l->lines.n + 1, sizeof *built);
        uint32_t n = 0, mapping;
        if (otlp_build_mapping(o, g, l->mapping, &mapping))
            return -1;
        for (size_t i = 0; i < l->lines.n; i++) {
            if (lines[i].function == 0 && !lines[i].line)
                continue; // function 0 means no function
            built[n].line = lines[i].line;
            built[n].column = lines[i].column;
            if (otlp_build_function(o, g, lines[i].function, &built[n++].function))
                return -1;
        }
        g->locations[index] = model_build_location(&g->b, mapping, (uint64_t)l->address, built, n);
    }
    *location = g->locations[index];
    return 0;
}

// --- samples ---

static int otlp_add_labels(struct otlp *o, struct group *g, const struct otlp_sample *s)
{
    const int64_t *attributes = s->attributes.items;
    for (size_t i = 0; i < s->attributes.n; i++) {
        const struct otlp_indexed *a;
        struct str key;
        if (attribute_at(o, attributes[i], &a, &key))
            return -1;
        struct str value = attribute_text(o, a->value);
        if (value.n && key.n && !str_eq(key, STR("service.name")))
            model_build_label(&g->b, key, value);
    }
    if (!s->link)
        return 0;
    const struct otlp_link *link = AT(o->d->links, s->link, struct otlp_link);
    if (!link)
        return index_error(o, "link_table", s->link);
    if (link->span_id.n == 8)
        model_build_label(
            &g->b, STR("span_id"),
            str_from(arena_hex(o->arena, (const uint8_t *)link->span_id.p, link->span_id.n)));
    if (link->trace_id.n == 16)
        model_build_label(
            &g->b, STR("trace_id"),
            str_from(arena_hex(o->arena, (const uint8_t *)link->trace_id.p, link->trace_id.n)));
    return 0;
}

// A sample without values has one event per timestamp.
static int64_t sample_value(const struct otlp_sample *s, int64_t factor)
{
    const int64_t *values = s->values.items;
    int64_t sum = s->values.n ? 0 : (int64_t)s->timestamps.n;
    for (size_t i = 0; i < s->values.n; i++)
        if (__builtin_add_overflow(sum, values[i], &sum))
            sum = INT64_MAX;
    return __builtin_mul_overflow(sum, factor, &sum) ? INT64_MAX : sum;
}

static int otlp_add_sample(struct otlp *o, struct group *g, const struct otlp_sample *s,
                           int64_t factor)
{
    const struct otlp_stack *stack = AT(o->d->stacks, s->stack, struct otlp_stack);
    if (!stack)
        return index_error(o, "stack_table", s->stack);
    const int64_t *locations = stack->locations.items;
    size_t n = 0;
    arena_spend(o->arena, 1 + stack->locations.n);
    for (; n < stack->locations.n; n++) {
        g->frames = arena_push(o->arena, g->frames, n, &g->cap_frames, sizeof *g->frames);
        if (otlp_build_location(o, g, locations[n], &g->frames[n]))
            return -1;
    }
    if (otlp_add_labels(o, g, s))
        return -1;
    int64_t value = sample_value(s, factor);
    model_build_sample(&g->b, g->frames, n, &value);
    return 0;
}

static int sample_service(struct otlp *o, const struct otlp_sample *s, struct str *service)
{
    const int64_t *attributes = s->attributes.items;
    *service = STR("");
    for (size_t i = 0; i < s->attributes.n; i++) {
        const struct otlp_indexed *a;
        struct str key;
        if (attribute_at(o, attributes[i], &a, &key))
            return -1;
        if (str_eq(key, STR("service.name")))
            *service = attribute_text(o, a->value);
    }
    return 0;
}

static int read_type(struct otlp *o, const struct otlp_type *t, struct str *type, struct str *unit)
{
    *type = *unit = STR("");
    return t ? (string_at(o, t->type, type) || string_at(o, t->unit, unit) ? -1 : 0) : 0;
}

static struct group *begin_group(struct otlp *o, const struct otlp_raw_profile *raw,
                                 struct str type, struct str unit, struct str period_type,
                                 struct str period_unit)
{
    struct group *g = arena_alloc(o->arena, sizeof *g);
    model_build(&g->b, o->arena);
    g->mappings = new_index_map(o, o->d->mappings.n);
    g->functions = new_index_map(o, o->d->functions.n);
    g->locations = new_index_map(o, o->d->locations.n);
    model_build_type(&g->b, type, unit);
    struct model_profile *p = g->b.p;
    p->period_type.type = model_build_string(&g->b, period_type);
    p->period_type.unit = model_build_string(&g->b, period_unit);
    p->period = raw->period;
    p->time_nanos = raw->time;
    p->duration_nanos = raw->duration;
    return g;
}

static int otlp_read_profile(struct otlp *o, const struct otlp_raw_profile *raw,
                             struct otlp_attribute *attributes, size_t n_attributes)
{
    struct str type, unit, period_type, period_unit;
    size_t first = o->n;
    if (!raw->sample_type)
        return err_set(o->e, "OTLP: a profile has no sample_type");
    if (read_type(o, raw->sample_type, &type, &unit) ||
        read_type(o, raw->period_type, &period_type, &period_unit))
        return -1;
    // Samples taken with a period in nanoseconds are CPU time.
    int64_t factor = 1;
    if (str_eq(type, STR("samples")) && str_eq(unit, STR("count")) &&
        str_eq(period_type, STR("cpu")) && str_eq(period_unit, STR("nanoseconds")) &&
        raw->period > 0) {
        type = STR("cpu");
        unit = STR("nanoseconds");
        factor = raw->period;
    }
    struct otlp_sample *samples = raw->samples.items;
    struct group **groups = NULL;
    size_t cap = 0;
    struct hash_table index; // the profiles built here, by service
    hash_init(&index, o->arena, 0);
    for (size_t i = 0; i < raw->samples.n; i++) {
        struct str service;
        assign_sample_fields(o, &samples[i]);
        if (sample_service(o, &samples[i], &service))
            return -1;
        size_t at_group = o->n;
        uint64_t hash = hash_bytes(service.p, service.n, 0);
        for (struct hash_probe list_item = hash_find(&index, hash); hash_hit(&index, &list_item);
             hash_next(&index, &list_item))
            if (str_eq(o->profiles[list_item.item].service, service))
                at_group = list_item.item;
        if (at_group == o->n) {
            hash_add(&index, o->arena, hash, (uint32_t)o->n);
            groups = arena_push(o->arena, groups, o->n - first, &cap, sizeof *groups);
            struct group *g = begin_group(o, raw, type, unit, period_type, period_unit);
            groups[o->n - first] = g;
            o->profiles = arena_push(o->arena, o->profiles, o->n, &o->cap, sizeof *o->profiles);
            o->profiles[o->n++] = (struct otlp_profile){attributes, n_attributes, service, g->b.p};
        }
        if (otlp_add_sample(o, groups[at_group - first], &samples[i], factor))
            return -1;
    }
    return 0;
}

// --- the request ---

enum { MOST_ATTRIBUTES = 1024 };

static int otlp_add_attributes(struct otlp *o, const struct otlp_resource *from,
                               struct otlp_attribute **list, size_t *n, size_t *cap)
{
    const struct otlp_key_value *pairs = from ? from->attributes.items : NULL;
    for (size_t i = 0; from && i < from->attributes.n; i++) {
        struct str key = pairs[i].key;
        if (!key.n && pairs[i].key_strindex && string_at(o, pairs[i].key_strindex, &key))
            return -1;
        struct str value = attribute_text(o, pairs[i].value);
        size_t k = 0;
        arena_spend(o->arena, 1 + *n / 8);
        while (k < *n && !str_eq((*list)[k].key, key))
            k++;
        if (!value.n || !key.n || k < *n)
            continue;
        if (*n == MOST_ATTRIBUTES)
            return err_set(o->e, "OTLP: a resource and its scope have more than %d attributes",
                           MOST_ATTRIBUTES);
        *list = arena_push(o->arena, *list, *n, cap, sizeof **list);
        (*list)[(*n)++] = (struct otlp_attribute){key, value};
    }
    return 0;
}

static int otlp_read_request(struct otlp *o, const struct otlp_request *r)
{
    static const struct otlp_dictionary empty;
    const struct otlp_resource_profiles *resources = r->resources.items;
    if (!r->resources.n)
        return err_set(o->e, "OTLP: the request has no resource_profiles");
    o->d = r->dictionary ? r->dictionary : &empty;
    o->version = find_sample_version(r);
    for (size_t i = 0; i < r->resources.n; i++) {
        const struct otlp_scope_profiles *scopes = resources[i].scopes.items;
        struct otlp_attribute *shared = NULL;
        size_t n_shared = 0, cap_shared = 0;
        if (otlp_add_attributes(o, resources[i].resource, &shared, &n_shared, &cap_shared))
            return -1;
        for (size_t j = 0; j < resources[i].scopes.n; j++) {
            struct otlp_attribute *attributes = shared;
            size_t n = n_shared;
            if (scopes[j].scope && scopes[j].scope->attributes.n) {
                size_t cap = n + 1;
                attributes = arena_array(o->arena, cap, sizeof *attributes);
                if (n)
                    memcpy(attributes, shared, n * sizeof *attributes);
                if (otlp_add_attributes(o, scopes[j].scope, &attributes, &n, &cap))
                    return -1;
            }
            const struct otlp_raw_profile *profiles = scopes[j].profiles.items;
            for (size_t k = 0; k < scopes[j].profiles.n; k++)
                if (otlp_read_profile(o, &profiles[k], attributes, n))
                    return -1;
        }
    }
    return 0;
}

int otlp_read(struct arena *arena, const uint8_t *data, size_t n, bool json,
              struct otlp_profile **profiles, size_t *n_profiles, struct err *e)
{
    struct otlp o = {.arena = arena, .e = e, .json = json};
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    const struct otlp_request *r =
        json ? message_read_json(&otlp_request_message, arena, data, n, e)
             : message_read_proto(&otlp_request_message, arena, data, n, e);
    int result = r ? otlp_read_request(&o, r) : -1;
    arena_try_end(arena);
    *profiles = o.profiles;
    *n_profiles = o.n;
    return result;
}
