#include "server/ingest_fix.h"

#include "codec/codec.h"
#include "codec/compress.h"
#include "codec/pprof_message.h"
#include "model/transform.h"

// What agents mean that send no configuration.
static const struct ingest_sample_type usual[] = {
    {STR("samples"), STR("cpu"), false},
    {STR("alloc_objects"), STR(""), true},
    {STR("alloc_space"), STR(""), true},
    {STR("goroutine"), STR("goroutines"), false},
    {STR("contentions"), STR("mutex_count"), true},
    {STR("delay"), STR("mutex_duration"), true},
};

static const struct ingest_sample_type *find_type(const struct ingest_types *types, struct str type)
{
    const struct ingest_sample_type *items = types->given ? types->items : usual;
    size_t n = types->given ? types->n : sizeof usual / sizeof *usual;
    for (size_t i = 0; i < n; i++)
        if (str_eq(items[i].type, type))
            return &items[i];
    return NULL;
}

static bool has_fixed_label(struct str s, const char *part)
{
    return str_find(s, str_from(part), 0) != SIZE_MAX;
}

struct str ingest_metric(const struct model_profile *p, const struct ingest_types *types)
{
    struct str name = STR("");
    for (uint32_t i = 0; i < p->n_types; i++)
        if (str_eq(model_str(p, p->types[i].type), STR("wall")))
            return STR("wall");
    for (uint32_t i = 0; i < p->n_types; i++) {
        name = model_str(p, p->types[i].type);
        const struct ingest_sample_type *type = find_type(types, name);
        if (type && type->display.n)
            name = type->display;
        if (has_fixed_label(name, "cpu"))
            return STR("process_cpu");
        if (has_fixed_label(name, "alloc_") || has_fixed_label(name, "inuse_") ||
            str_eq(name, STR("space")) || str_eq(name, STR("objects")))
            return STR("memory");
        if (has_fixed_label(name, "mutex_"))
            return STR("mutex");
        if (has_fixed_label(name, "block_"))
            return STR("block");
        if (has_fixed_label(name, "goroutines"))
            return STR("goroutines");
    }
    return name;
}

bool ingest_is_dotnet(struct str spy, const struct ingest_types *types)
{
    return str_eq(spy, STR("dotnetspy")) ||
           (str_eq(spy, STR("unknown")) && types->given && find_type(types, STR("inuse-space")));
}

static struct model_profile *repair_ids(struct arena *arena, const uint8_t *data, size_t n,
                                        struct err *e)
{
    struct err unreadable;
    struct pprof_profile *p = message_read_proto(&pprof_message, arena, data, n, &unreadable);
    if (!p || p->function.n != p->location.n)
        return NULL; // e has what the reader said
    struct pprof_function *functions = p->function.items;
    struct pprof_location *locations = p->location.items;
    for (size_t i = 0; i < p->function.n; i++)
        if (functions[i].id)
            return NULL;
    for (size_t i = 0; i < p->function.n; i++)
        functions[i].id = locations[i].id;
    struct out out;
    out_init_arena(&out, arena);
    message_write_proto(&pprof_message, p, &out);
    return codec_read_pprof(arena, (const uint8_t *)out.p, out.n, e);
}

struct model_profile *ingest_fix_dotnet(const struct server_limits *limits, struct arena *arena,
                                        struct str data, struct err *e)
{
    const uint8_t *p = (const uint8_t *)data.p;
    if (!compress_is_gzip(p, data.n))
        return repair_ids(arena, p, data.n, e);
    struct compress_bytes bytes = {.budget = arena_budget(arena)};
    if (compress_inflate(p, data.n, limits->profile, &bytes, e))
        return NULL;
    struct arena_trap trap;
    struct model_profile *profile = NULL;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
    } else {
        profile = repair_ids(arena, bytes.p, bytes.n, e);
        arena_try_end(arena);
    }
    compress_bytes_fini(&bytes);
    return profile;
}

void ingest_fix_type_names(struct model_profile *p)
{
    for (uint32_t i = 0; i < p->n_types; i++) {
        struct str name = model_str(p, p->types[i].type);
        char *fixed = arena_copy(p->arena, name.p, name.n);
        for (size_t k = 0; k < name.n; k++)
            if (fixed[k] == '-')
                fixed[k] = '_';
        p->types[i].type = model_intern(p->strings, (struct str){fixed, name.n});
    }
}

void ingest_fix_script_names(struct model_profile *p, struct str spy, struct arena *arena)
{
    bool python = str_eq(spy, STR("pyspy"));
    if (!python && !str_eq(spy, STR("rbspy")) && !str_eq(spy, STR("scripting")))
        return;
    for (uint32_t i = 0; i < p->n_functions; i++) {
        struct str file = model_str(p, p->functions[i].filename);
        struct str name = model_str(p, p->functions[i].name);
        if (python && file.n && file.p[0] == '/')
            continue;
        const char *joined =
            arena_printf(arena, "%.*s %.*s", (int)file.n, file.p, (int)name.n, name.p);
        p->functions[i].name = model_intern(p->strings, str_from(joined));
    }
}

struct model_profile *ingest_subtract(struct model_profile *p, struct model_profile *before,
                                      const struct ingest_types *types, struct arena *arena,
                                      struct err *e)
{
    double *ratios = arena_array(arena, p->n_types + 1, sizeof *ratios);
    bool any = false;
    if (model_check_equal_types(p, before, e))
        return NULL;
    for (uint32_t i = 0; i < p->n_types; i++) {
        const struct ingest_sample_type *type = find_type(types, model_str(p, p->types[i].type));
        bool cumulative = types->given && type && type->cumulative;
        ratios[i] = cumulative ? -1 : 0;
        any |= cumulative;
    }
    if (!any) {
        err_set(e, "sample_type_config does not set which types are cumulative");
        return NULL;
    }
    int64_t time = p->time_nanos, duration = p->duration_nanos;
    struct model_profile *both[] = {p, model_scale(before, ratios, arena)};
    struct model_profile *rest = model_merge(both, 2, arena, e);
    if (!rest)
        return NULL;
    for (size_t i = 0; i < rest->n_samples * rest->n_types; i++)
        if (rest->values[i] < 0)
            rest->values[i] = 0;
    rest->time_nanos = time;
    rest->duration_nanos = duration;
    return rest;
}
