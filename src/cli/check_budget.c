#include <stdio.h>

#include "cli/check.h"
#include "model/regex.h"
#include "server/config_tables.h"

static const double default_total = 0.03, default_share = 0.001;

struct limit {
    struct str type;
    double growth;
};

struct limits {
    struct limit *items;
    size_t n;
};

struct rule {
    struct str pattern;
    struct model_regex *match;
    struct limits growth;
    double share;
};

struct check_budget {
    struct limits total;
    struct rule *functions; // the first that matches decides
    size_t n_functions;
};

// 5% or 0.05. A 3 without a sign is more likely 3 % than 300 %.
static int read_share(struct yaml_reader *r, const char *key, yaml_node_t *node, double *share)
{
    struct str text;
    if (yaml_text(r, key, node, &text))
        return -1;
    bool percent = str_ends(text, STR("%"));
    struct str number = {text.p, text.n - percent};
    if (!str_to_double(number, share) || !(*share >= 0) || *share > (percent ? 1e6 : 0.999))
        return yaml_fail(r, node, key, "invalid growth \"%.*s\"; expected a percentage such as 3%%",
                         (int)text.n, text.p);
    *share /= percent ? 100 : 1;
    return 0;
}

static int read_limits(struct yaml_reader *r, const char *key, yaml_node_t *node,
                       struct limits *limits)
{
    if (node->type != YAML_MAPPING_NODE)
        return yaml_fail(r, node, key, "expected sample types with percentages, such as cpu: 3%%");
    yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    size_t n = (size_t)(node->data.mapping.pairs.top - pair);
    limits->items = arena_array(r->arena, n + 1, sizeof *limits->items);
    limits->n = n;
    for (size_t i = 0; i < n; i++) {
        yaml_node_t *name = yaml_document_get_node(&r->document, pair[i].key);
        yaml_node_t *value = yaml_document_get_node(&r->document, pair[i].value);
        if (yaml_text(r, key, name, &limits->items[i].type) ||
            read_share(r, limits->items[i].type.p, value, &limits->items[i].growth))
            return -1;
        for (size_t k = 0; k < i; k++)
            if (str_eq(limits->items[k].type, limits->items[i].type))
                return yaml_fail(r, name, key, "%s is set twice", limits->items[i].type.p);
    }
    return 0;
}

static int read_total(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    return read_limits(r, key, node, &((struct check_budget *)object)->total);
}

static int read_growth(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    return read_limits(r, key, node, &((struct rule *)object)->growth);
}

static int read_rule_share(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    return read_share(r, key, node, &((struct rule *)object)->share);
}

static void set_rule_defaults(void *element)
{
    ((struct rule *)element)->share = default_share;
}

static int check_budget_rule(struct yaml_reader *r, yaml_node_t *node, void *element)
{
    struct rule *rule = element;
    if (!rule->pattern.n)
        return yaml_fail(r, node, "match", "missing; expected a regular expression");
    rule->match = model_regex_new(r->arena, "match", rule->pattern, r->e);
    return rule->match ? 0 : err_prefix(r->e, "%s: ", r->file);
}

static const struct yaml_table rule_table = {
    (const struct yaml_key[]){
        KEY("match", YAML_TEXT, struct rule, pattern),
        {.name = "growth", .kind = YAML_OTHER, .read = read_growth},
        {.name = "share", .kind = YAML_OTHER, .read = read_rule_share},
        END,
    },
    sizeof(struct rule), set_rule_defaults, check_budget_rule};

static const struct yaml_table budget_table = {
    (const struct yaml_key[]){
        {.name = "total", .kind = YAML_OTHER, .read = read_total},
        OF("functions", YAML_ITEMS, struct check_budget, functions, rule_table),
        END,
    },
    0, NULL, NULL};

struct check_budget *check_budget_read(const char *file, struct arena *arena, struct err *e)
{
    struct check_budget *b = arena_array(arena, 1, sizeof *b);
    *b = (struct check_budget){0};
    return *file && yaml_read_file(file, arena, &budget_table, b, e) ? NULL : b;
}

static double find_limit(const struct limits *limits, struct str type, double otherwise)
{
    for (size_t i = 0; i < limits->n; i++)
        if (str_eq(limits->items[i].type, type))
            return limits->items[i].growth;
    return otherwise;
}

double check_budget_total(const struct check_budget *b, struct str type)
{
    return find_limit(&b->total, type, default_total);
}

struct str check_budget_type(const struct check_budget *b, size_t i, bool *is_total)
{
    *is_total = i < b->total.n;
    if (*is_total)
        return b->total.items[i].type;
    i -= b->total.n;
    for (size_t k = 0; k < b->n_functions; i -= b->functions[k++].growth.n)
        if (i < b->functions[k].growth.n)
            return b->functions[k].growth.items[i].type;
    return STR("");
}

struct check_allowance check_budget_function(const struct check_budget *b, struct str type,
                                             struct str function)
{
    for (size_t i = 0; i < b->n_functions; i++) {
        const struct rule *rule = &b->functions[i];
        if (model_regex_match(rule->match, function))
            return (struct check_allowance){find_limit(&rule->growth, type, 0), rule->share};
    }
    return (struct check_allowance){0, default_share};
}
