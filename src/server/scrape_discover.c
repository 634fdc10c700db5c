#include "server/scrape_discover.h"

#include "server/config_tables.h"
#include "server/limits.h"

enum { LABELS_MAX = 256 }; // of a group: looked up one by one

static const struct str default_tenant = STR("anonymous");

static struct str find_target(const struct store_label *labels, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(labels[i].name, name))
            return labels[i].value;
    return (struct str){NULL, 0};
}

static void escape_target(struct out *out, struct str s)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            c == '-' || c == '_' || c == '.' || c == '~')
            out_char(out, c);
        else {
            const unsigned char byte = (unsigned char)c;
            const char escaped[] = {'%', digits[byte >> 4], digits[byte & 15]};
            out_write(out, escaped, sizeof escaped);
        }
    }
}

void scrape_put_parameter(struct out *out, struct str name, struct str value, bool *first)
{
    out_char(out, *first ? '?' : '&');
    *first = false;
    escape_target(out, name);
    out_char(out, '=');
    escape_target(out, value);
}

int64_t scrape_seconds(const struct scrape_target *t)
{
    if (t->profile->seconds)
        return t->profile->seconds;
    return t->profile->delta ? t->config->interval / 1000000000 : 0;
}

// Labels that begin with __param_ become parameters, as in Prometheus.
static const char *make_url(struct scrape_job *job, const struct scrape_profile *p,
                            const struct store_label *labels, size_t n)
{
    const struct scrape_config *c = job->config;
    struct out *out = &job->text;
    struct str scheme = find_target(labels, n, STR("__scheme__"));
    struct str address = find_target(labels, n, STR("__address__"));
    struct str prefix_label = find_target(labels, n, STR("__profile_path_prefix__"));
    struct str path = find_target(labels, n, STR("__profile_path__"));
    path = path.n ? path : p->path;
    bool first = memchr(path.p, '?', path.n) == NULL;
    out->n = 0;
    out_str(out, scheme.n ? scheme : c->scheme);
    out_text(out, "://");
    out_str(out, address);
    out_str(out, prefix_label.n ? prefix_label : c->path_prefix);
    out_str(out, path);
    const struct str prefix = STR("__param_");
    for (size_t i = 0; i < n; i++)
        if (str_starts(labels[i].name, prefix))
            scrape_put_parameter(out, str_from_to(labels[i].name, prefix.n, labels[i].name.n),
                                 labels[i].value, &first);
    int64_t seconds = scrape_seconds(&(struct scrape_target){.config = c, .profile = p});
    if (seconds) {
        scrape_put_parameter(out, STR("seconds"),
                             str_from(arena_printf(job->arena, "%lld", (long long)seconds)),
                             &first);
    }
    return arena_copy(job->arena, out->p, out->n);
}

static struct str copy_target_text(struct arena *arena, struct str s)
{
    return (struct str){arena_copy(arena, s.p, s.n), s.n};
}

static void add_discovered_label(struct store_label *labels, size_t *n, struct str name,
                                 struct str value)
{
    if (value.n && !find_target(labels, *n, name).p)
        labels[(*n)++] = (struct store_label){name, value};
}

// A text that lives as long as the targets.
static struct str keep_target_text(const struct scrape_job *job, struct str s)
{
    return job->scratch ? copy_target_text(job->arena, s) : s;
}

// What the series carries: everything that is not private, and a service's name.
static void series_labels(const struct scrape_job *job, const struct store_label *labels, size_t n,
                          struct scrape_target *target)
{
    const struct scrape_config *c = job->config;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        kept += !str_starts(labels[i].name, STR("__"));
    target->labels = arena_array(job->arena, kept + 4, sizeof *target->labels);
    for (size_t i = 0; i < n; i++)
        if (!str_starts(labels[i].name, STR("__")))
            target->labels[target->n_labels++] = (struct store_label){
                keep_target_text(job, labels[i].name), keep_target_text(job, labels[i].value)};
    add_discovered_label(target->labels, &target->n_labels, STR("instance"),
                         keep_target_text(job, find_target(labels, n, STR("__address__"))));
    add_discovered_label(target->labels, &target->n_labels, STR("service_name"),
                         find_target(target->labels, target->n_labels, STR("job")));
    add_discovered_label(target->labels, &target->n_labels, STR("service_name"), c->job);
}

static const char *make_key(struct scrape_job *job, const struct scrape_target *t)
{
    struct out *out = &job->text;
    out->n = 0;
    out_str(out, t->tenant);
    // Not out_printf: a long text would be lost if the arena jumps.
    const struct str parts[] = {t->config->job, t->profile->name, str_from(t->url)};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        out_char(out, ' ');
        out_str(out, parts[i]);
    }
    for (size_t i = 0; i < t->n_labels; i++) {
        out_char(out, ' ');
        out_str(out, t->labels[i].name);
        out_char(out, '=');
        out_str(out, t->labels[i].value);
    }
    return arena_copy(job->arena, out->p, out->n);
}

const char *scrape_shown_url(const char *url, struct arena *arena)
{
    struct str text = str_from(url);
    size_t begin = str_find(text, STR("://"), 0);
    begin = begin == SIZE_MAX ? 0 : begin + 3;
    size_t end = begin + strcspn(url + begin, "/?#"), at = end;
    while (at > begin && url[at - 1] != '@')
        at--;
    return at == begin ? url : arena_printf(arena, "%.*s%s", (int)begin, url, url + at);
}

// Prometheus asks for the same: an address is HOST or HOST:PORT, not a part of a URL.
static bool is_address(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] <= ' ' || s.p[i] == 0x7f || strchr("/?#@\\%", s.p[i]))
            return false;
    return s.n > 0;
}

// A path of a URL, perhaps with parameters; n 0: none.
static bool is_path(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] <= ' ' || (unsigned char)s.p[i] >= 0x7f || s.p[i] == '#')
            return false;
    return !s.n || s.p[0] == '/';
}

static int check_path(struct str path, struct str address, struct err *e)
{
    if (is_path(path))
        return 0;
    return err_set(e, "%.*s: invalid profile path \"%.*s\"; expected /PATH",
                   (int)(address.n < 100 ? address.n : 100), address.p,
                   (int)(path.n < 100 ? path.n : 100), path.p);
}

static int check_target(struct str tenant, struct str scheme, struct str address, struct err *e)
{
    if (!is_address(address))
        return err_set(e, "invalid address \"%.*s\"; expected HOST:PORT",
                       (int)(address.n < 100 ? address.n : 100), address.p);
    if (!str_eq(scheme, STR("http")) && !str_eq(scheme, STR("https")))
        return err_set(e, "%.*s: invalid __scheme__ \"%.*s\"; expected http or https",
                       (int)(address.n < 100 ? address.n : 100), address.p,
                       (int)(scheme.n < 20 ? scheme.n : 20), scheme.p);
    if (!store_is_tenant(tenant))
        return err_set(e, "%.*s: invalid __tenant_id__ \"%.*s\"",
                       (int)(address.n < 100 ? address.n : 100), address.p,
                       (int)(tenant.n < 40 ? tenant.n : 40), tenant.p);
    return 0;
}

// Annotations of pods say cpu where profiles are named process_cpu. type n 0: any.
static bool is_profile_type(const struct scrape_profile *p, struct str type)
{
    return !type.n || str_eq(p->name, type) ||
           (str_eq(type, STR("cpu")) && str_eq(p->name, STR("process_cpu")));
}

static int add_target(struct scrape_job *job, const struct target_group *group, bool discovered,
                      struct str address, struct scrape_targets *targets, struct err *e)
{
    const struct scrape_config *c = job->config;
    struct arena *arena = job->scratch ? job->scratch : job->arena;
    size_t n = 0;
    bool keep;
    struct store_label *labels =
        arena_array(arena, group->n_labels + c->n_params + 4, sizeof *labels);
    for (size_t i = 0; i < group->n_labels; i++)
        if (!discovered || !c->tenant.n || !str_eq(group->labels[i].name, STR("__tenant_id__")))
            // Copies: the answer of a discovery URL is freed when the next one comes.
            labels[n++] = (struct store_label){copy_target_text(arena, group->labels[i].name),
                                               copy_target_text(arena, group->labels[i].value)};
    address = copy_target_text(arena, address);
    add_discovered_label(labels, &n, STR("__address__"), address);
    add_discovered_label(labels, &n, STR("__scheme__"), c->scheme);
    add_discovered_label(labels, &n, STR("job"), c->job);
    for (size_t i = 0; i < c->n_params; i++)
        add_discovered_label(labels, &n,
                             str_from(arena_printf(arena, "__param_%.*s", (int)c->params[i].name.n,
                                                   c->params[i].name.p)),
                             c->params[i].value);
    if (scrape_relabel(job->rules, &labels, &n, arena, &keep, e))
        return -1;
    address = find_target(labels, n, STR("__address__"));
    if (!keep || !address.n)
        return 0;
    struct str tenant = find_target(labels, n, STR("__tenant_id__"));
    if (!tenant.n)
        tenant = c->tenant.n ? c->tenant : default_tenant;
    struct str scheme = find_target(labels, n, STR("__scheme__"));
    if (check_target(tenant, scheme.n ? scheme : c->scheme, address, e))
        return -1;
    if (check_path(find_target(labels, n, STR("__profile_path__")), address, e) ||
        check_path(find_target(labels, n, STR("__profile_path_prefix__")), address, e))
        return -1;
    if (job->addresses++ >= c->target_limit)
        return err_set(e, "more than %u targets (target_limit)", c->target_limit);
    tenant = keep_target_text(job, tenant);
    for (size_t i = 0; i < c->n_profiles; i++) {
        if (!c->profiles[i].enabled ||
            !is_profile_type(&c->profiles[i], find_target(labels, n, STR("__profile_type__"))))
            continue;
        struct scrape_target target = {.config = c, .profile = &c->profiles[i], .tenant = tenant};
        target.url = make_url(job, target.profile, labels, n);
        series_labels(job, labels, n, &target);
        target.key = make_key(job, &target);
        targets->items = arena_push(job->arena, targets->items, targets->n, &targets->cap,
                                    sizeof *targets->items);
        targets->items[targets->n++] = target;
    }
    return 0;
}

int scrape_job_init(struct scrape_job *job, const struct scrape_config *config, struct arena *arena,
                    struct err *e)
{
    *job = (struct scrape_job){.config = config, .arena = arena};
    out_init_arena(&job->text, arena);
    job->rules = scrape_rules_new(config->rules, config->n_rules, arena, e);
    return job->rules ? 0 : -1;
}

static void note_unusable(struct scrape_targets *targets, const struct err *e)
{
    if (!targets->unusable++)
        targets->why = *e;
}

void scrape_add_groups(struct scrape_job *job, const struct target_group *groups, size_t n,
                       bool discovered, struct scrape_targets *targets)
{
    struct err e = {""};
    for (size_t i = 0; i < n; i++) {
        if (groups[i].n_labels > LABELS_MAX) {
            err_set(&e, "a group of targets has %zu labels; limit %d", groups[i].n_labels,
                    LABELS_MAX);
            note_unusable(targets, &e);
            continue;
        }
        for (size_t k = 0; k < groups[i].n_targets; k++) {
            if (add_target(job, &groups[i], discovered, groups[i].targets[k], targets, &e))
                note_unusable(targets, &e);
            if (job->addresses > job->config->target_limit)
                return;
        }
    }
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
