#include "server/scrape_discover.h"

#include "base/out.h"
#include "server/config_tables.h"

static struct str find(const struct store_label *labels, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(labels[i].name, name))
            return labels[i].value;
    return (struct str){NULL, 0};
}

static void escape(struct out *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            c == '-' || c == '_' || c == '.' || c == '~')
            out_char(out, c);
        else
            out_printf(out, "%%%02X", (unsigned char)c);
    }
}

static void put_parameter(struct out *out, struct str name, struct str value, bool *first)
{
    out_char(out, *first ? '?' : '&');
    *first = false;
    escape(out, name);
    out_char(out, '=');
    escape(out, value);
}

// Labels that begin with __param_ become parameters, as in Prometheus.
static const char *make_url(const struct scrape_config *c, const struct scrape_profile *p,
                            const struct store_label *labels, size_t n, struct arena *arena)
{
    struct out out;
    struct str scheme = find(labels, n, STR("__scheme__"));
    struct str address = find(labels, n, STR("__address__"));
    bool first = memchr(p->path.p, '?', p->path.n) == NULL;
    out_init_arena(&out, arena);
    out_str(&out, scheme.n ? scheme : c->scheme);
    out_text(&out, "://");
    out_str(&out, address);
    out_str(&out, c->path_prefix);
    out_str(&out, p->path);
    const struct str prefix = STR("__param_");
    for (size_t i = 0; i < n; i++)
        if (str_starts(labels[i].name, prefix))
            put_parameter(&out, str_from_to(labels[i].name, prefix.n, labels[i].name.n),
                          labels[i].value, &first);
    if (p->delta || p->seconds) {
        int64_t seconds = p->seconds ? p->seconds : c->interval / 1000000000;
        put_parameter(&out, STR("seconds"),
                      str_from(arena_printf(arena, "%lld", (long long)seconds)), &first);
    }
    out_char(&out, '\0');
    return out.p;
}

static void add(struct store_label *labels, size_t *n, struct str name, struct str value)
{
    if (value.n && !find(labels, *n, name).p)
        labels[(*n)++] = (struct store_label){name, value};
}

// What the series carries: everything that is not private, and a service's name.
static void series_labels(const struct scrape_config *c, const struct store_label *labels, size_t n,
                          struct arena *arena, struct scrape_target *target)
{
    target->labels = arena_array(arena, n + 4, sizeof *target->labels);
    for (size_t i = 0; i < n; i++)
        if (!str_starts(labels[i].name, STR("__")))
            target->labels[target->n_labels++] = labels[i];
    add(target->labels, &target->n_labels, STR("instance"), find(labels, n, STR("__address__")));
    add(target->labels, &target->n_labels, STR("service_name"),
        find(target->labels, target->n_labels, STR("job")));
    add(target->labels, &target->n_labels, STR("service_name"), c->job);
}

static const char *make_key(const struct scrape_target *t, struct arena *arena)
{
    struct out out;
    out_init_arena(&out, arena);
    out_printf(&out, "%s %s %s", t->config->job.p, t->profile->name.p, t->url);
    for (size_t i = 0; i < t->n_labels; i++) {
        out_char(&out, ' ');
        out_str(&out, t->labels[i].name);
        out_char(&out, '=');
        out_str(&out, t->labels[i].value);
    }
    out_char(&out, '\0');
    return out.p;
}

static int add_target(const struct scrape_config *c, const struct target_group *group,
                      struct str address, struct arena *arena, struct scrape_targets *targets,
                      struct err *e)
{
    size_t n = 0;
    bool keep;
    struct store_label *labels =
        arena_array(arena, group->n_labels + c->n_params + 4, sizeof *labels);
    for (size_t i = 0; i < group->n_labels; i++)
        labels[n++] = group->labels[i];
    add(labels, &n, STR("__address__"), address);
    add(labels, &n, STR("__scheme__"), c->scheme);
    add(labels, &n, STR("job"), c->job);
    for (size_t i = 0; i < c->n_params; i++)
        add(labels, &n,
            str_from(
                arena_printf(arena, "__param_%.*s", (int)c->params[i].name.n, c->params[i].name.p)),
            c->params[i].value);
    if (scrape_relabel(c->rules, c->n_rules, &labels, &n, arena, &keep, e))
        return -1;
    if (!keep || !find(labels, n, STR("__address__")).n)
        return 0;
    for (size_t i = 0; i < c->n_profiles; i++) {
        if (!c->profiles[i].enabled)
            continue;
        struct scrape_target target = {.config = c, .profile = &c->profiles[i]};
        target.url = make_url(c, target.profile, labels, n, arena);
        series_labels(c, labels, n, arena, &target);
        target.key = make_key(&target, arena);
        targets->items =
            arena_push(arena, targets->items, targets->n, &targets->cap, sizeof *targets->items);
        targets->items[targets->n++] = target;
    }
    return 0;
}

int scrape_add_groups(const struct scrape_config *c, const struct target_group *groups, size_t n,
                      struct arena *arena, struct scrape_targets *targets, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < groups[i].n_targets; k++)
            if (add_target(c, &groups[i], groups[i].targets[k], arena, targets, e))
                return -1;
    return 0;
}

int scrape_read_groups(const char *name, struct str text, struct arena *arena,
                       struct target_group **groups, size_t *n, struct err *e)
{
    struct {
        struct target_group *items;
        size_t n;
    } list = {0};
    // JSON is YAML: one reader for both.
    if (yaml_read_items(name, text, arena, &config_group_table, &list, e))
        return -1;
    *groups = list.items;
    *n = list.n;
    return 0;
}
