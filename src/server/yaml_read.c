#include "server/yaml_read.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "store/store.h"

int yaml_fail(struct yaml_reader *r, const yaml_node_t *at, const char *key, const char *format,
              ...)
{
    char text[300];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return err_set(r->e, "%s:%zu: %s: %s", r->file, at->start_mark.line + 1, key, text);
}

int yaml_text(struct yaml_reader *r, const char *key, yaml_node_t *node, struct str *text)
{
    *text = STR("");
    if (node->type != YAML_SCALAR_NODE)
        return yaml_fail(r, node, key, "expected one value");
    size_t n = node->data.scalar.length;
    *text = (struct str){arena_copy(r->arena, (const char *)node->data.scalar.value, n), n};
    return 0;
}

static int read_bool(struct yaml_reader *r, const char *key, yaml_node_t *node, bool *value)
{
    struct str text;
    if (yaml_text(r, key, node, &text))
        return -1;
    *value = str_eq(text, STR("true")) || str_eq(text, STR("yes")) || str_eq(text, STR("on"));
    if (!*value && !str_eq(text, STR("false")) && !str_eq(text, STR("no")) &&
        !str_eq(text, STR("off")))
        return yaml_fail(r, node, key, "expected true or false, found '%s'", text.p);
    return 0;
}

struct unit {
    const char *name;
    double factor;
};

// A number, then one of the units.
static bool read_quantity(struct str text, const struct unit *units, double *value)
{
    size_t n = 0;
    while (n < text.n && ((text.p[n] >= '0' && text.p[n] <= '9') || text.p[n] == '.'))
        n++;
    if (!n || !str_to_double(str_from_to(text, 0, n), value))
        return false;
    struct str unit = str_trim(str_from_to(text, n, text.n));
    for (; units->name; units++)
        if (str_eq(unit, str_from(units->name))) {
            *value *= units->factor;
            return true;
        }
    return false;
}

static int read_bytes(struct yaml_reader *r, const char *key, yaml_node_t *node, size_t *value)
{
    static const struct unit units[] = {
        {"", 1},          {"B", 1},
        {"KB", 1e3},      {"MB", 1e6},
        {"GB", 1e9},      {"TB", 1e12},
        {"KiB", 1 << 10}, {"MiB", 1 << 20},
        {"GiB", 1 << 30}, {"TiB", 1.099511627776e12},
        {NULL, 0},
    };
    struct str text;
    double bytes;
    if (yaml_text(r, key, node, &text))
        return -1;
    if (!read_quantity(text, units, &bytes) || bytes > 1e18)
        return yaml_fail(r, node, key, "expected a size such as 64MB or 1GiB, found '%s'", text.p);
    *value = (size_t)bytes;
    return 0;
}

static int read_duration(struct yaml_reader *r, const char *key, yaml_node_t *node, int64_t *value)
{
    static const struct unit units[] = {
        {"ms", 1e6},    {"s", 1e9},      {"m", 60e9}, {"h", 3600e9},
        {"d", 86400e9}, {"w", 604800e9}, {NULL, 0},
    };
    struct str text;
    double nanos;
    if (yaml_text(r, key, node, &text))
        return -1;
    if (str_eq(text, STR("0"))) {
        *value = 0;
        return 0;
    }
    if (!read_quantity(text, units, &nanos) || nanos > 9e18)
        return yaml_fail(r, node, key, "expected a duration such as 10s, 5m or 7d, found '%s'",
                         text.p);
    *value = (int64_t)nanos;
    return 0;
}

static int read_count(struct yaml_reader *r, const char *key, yaml_node_t *node, uint32_t *value)
{
    struct str text;
    uint64_t count;
    if (yaml_text(r, key, node, &text))
        return -1;
    if (!str_to_u64(text, 10, &count) || count > UINT32_MAX)
        return yaml_fail(r, node, key, "expected a number, found '%s'", text.p);
    *value = (uint32_t)count;
    return 0;
}

static yaml_node_t *node_at(struct yaml_reader *r, int id)
{
    return yaml_document_get_node(&r->document, id);
}

static int read_yaml_texts(struct yaml_reader *r, const char *key, yaml_node_t *node, void *to)
{
    struct {
        struct str *items;
        size_t n;
    } *list = to;
    if (node->type == YAML_SCALAR_NODE) {
        list->items = arena_array(r->arena, 1, sizeof *list->items);
        list->n = 1;
        return yaml_text(r, key, node, list->items);
    }
    if (node->type != YAML_SEQUENCE_NODE)
        return yaml_fail(r, node, key, "expected a list");
    size_t n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    list->items = arena_array(r->arena, n + 1, sizeof *list->items);
    for (list->n = 0; list->n < n; list->n++)
        if (yaml_text(r, key, node_at(r, node->data.sequence.items.start[list->n]),
                      &list->items[list->n]))
            return -1;
    return 0;
}

// Values may be lists, as those of params are: the first one counts.
static int read_labels(struct yaml_reader *r, const char *key, yaml_node_t *node, void *to)
{
    struct {
        struct store_label *items;
        size_t n;
    } *list = to;
    if (node->type != YAML_MAPPING_NODE)
        return yaml_fail(r, node, key, "expected a mapping of names to values");
    size_t n = (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
    list->items = arena_array(r->arena, n + 1, sizeof *list->items);
    list->n = 0;
    for (size_t i = 0; i < n; i++) {
        yaml_node_t *value = node_at(r, node->data.mapping.pairs.start[i].value);
        if (value->type == YAML_SEQUENCE_NODE) {
            if (value->data.sequence.items.start == value->data.sequence.items.top)
                continue;
            value = node_at(r, value->data.sequence.items.start[0]);
        }
        struct store_label *label = &list->items[list->n++];
        if (yaml_text(r, key, node_at(r, node->data.mapping.pairs.start[i].key), &label->name) ||
            yaml_text(r, key, value, &label->value))
            return -1;
    }
    return 0;
}

static int read_items(struct yaml_reader *r, const char *key, yaml_node_t *node,
                      const struct yaml_table *table, void *to)
{
    struct {
        char *items;
        size_t n;
    } *list = to;
    if (node->type != YAML_SEQUENCE_NODE)
        return yaml_fail(r, node, key, "expected a list");
    size_t n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    list->items = arena_array(r->arena, n + 1, table->size);
    for (list->n = 0; list->n < n; list->n++) {
        yaml_node_t *item = node_at(r, node->data.sequence.items.start[list->n]);
        void *element = list->items + list->n * table->size;
        if (table->defaults)
            table->defaults(element);
        if (yaml_read_mapping(r, item, table, element))
            return -1;
    }
    return 0;
}

static int read_value(struct yaml_reader *r, const struct yaml_key *k, yaml_node_t *node,
                      void *object)
{
    void *to = (char *)object + k->offset;
    struct str text;
    switch (k->kind) {
    case YAML_TEXT:
        return yaml_text(r, k->name, node, to);
    case YAML_CTEXT:
        if (yaml_text(r, k->name, node, &text))
            return -1;
        *(const char **)to = text.p;
        return 0;
    case YAML_BOOL:
        return read_bool(r, k->name, node, to);
    case YAML_COUNT:
        return read_count(r, k->name, node, to);
    case YAML_BYTES:
        return read_bytes(r, k->name, node, to);
    case YAML_DURATION:
        return read_duration(r, k->name, node, to);
    case YAML_TEXTS:
        return read_yaml_texts(r, k->name, node, to);
    case YAML_LABELS:
        return read_labels(r, k->name, node, to);
    case YAML_ITEMS:
        return read_items(r, k->name, node, k->table, to);
    case YAML_MAPPING:
        return yaml_read_mapping(r, node, k->table, to);
    case YAML_OTHER:
        return k->read(r, k->name, node, object);
    }
    return 0;
}

static int unknown_key(struct yaml_reader *r, yaml_node_t *node, const struct yaml_table *table,
                       const char *name)
{
    char known[200];
    size_t at = 0;
    known[0] = 0;
    for (const struct yaml_key *k = table->keys; k->name && at + 40 < sizeof known; k++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", k->name);
    return yaml_fail(r, node, name, "unknown key; expected %s", known);
}

int yaml_read_mapping(struct yaml_reader *r, yaml_node_t *node, const struct yaml_table *table,
                      void *object)
{
    if (node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0)
        return table->check ? table->check(r, node, object) : 0;
    if (node->type != YAML_MAPPING_NODE)
        return yaml_fail(r, node, "mapping", "expected keys with values");
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top;
         p++) {
        yaml_node_t *key = node_at(r, p->key);
        struct str name;
        if (yaml_text(r, "key", key, &name))
            return -1;
        const struct yaml_key *k = table->keys;
        while (k->name && strcmp(k->name, name.p) != 0)
            k++;
        if (!k->name)
            return unknown_key(r, key, table, name.p);
        for (yaml_node_pair_t *q = node->data.mapping.pairs.start; q < p; q++)
            if (strcmp((char *)node_at(r, q->key)->data.scalar.value, name.p) == 0)
                return yaml_fail(r, key, name.p, "is given twice");
        if (read_value(r, k, node_at(r, p->value), object))
            return -1;
    }
    return table->check ? table->check(r, node, object) : 0;
}

// A document is a mapping into object, or with list set a sequence into that.
struct destination {
    const struct yaml_table *table;
    void *object, *list;
};

static int read_document(struct yaml_reader *r, const struct destination *to)
{
    yaml_node_t *root = yaml_document_get_root_node(&r->document);
    if (!root)
        return 0;
    return to->list ? read_items(r, "targets", root, to->table, to->list)
                    : yaml_read_mapping(r, root, to->table, to->object);
}

static int load_yaml(struct yaml_reader *r, yaml_parser_t *parser, const struct destination *to)
{
    volatile int result = -1;
    if (!yaml_parser_load(parser, &r->document)) {
        err_set(r->e, "%s:%zu: not YAML: %s", r->file, parser->problem_mark.line + 1,
                parser->problem ? parser->problem : "cannot be read");
    } else {
        struct arena_trap trap;
        if (ARENA_TRY(r->arena, trap)) {
            arena_caught(r->arena, r->e);
        } else {
            result = read_document(r, to);
            arena_try_end(r->arena);
        }
        yaml_document_delete(&r->document);
    }
    yaml_parser_delete(parser);
    return result;
}

int yaml_read_file(const char *file, struct arena *arena, const struct yaml_table *table,
                   void *object, struct err *e)
{
    struct yaml_reader r = {.file = file, .arena = arena, .e = e};
    yaml_parser_t parser;
    FILE *f = fopen(file, "r");
    if (!f)
        return err_set(e, "%s: %s", file, strerror(errno));
    if (!yaml_parser_initialize(&parser)) {
        fclose(f);
        return err_set(e, "out of memory");
    }
    yaml_parser_set_input_file(&parser, f);
    int result = load_yaml(&r, &parser, &(struct destination){.table = table, .object = object});
    fclose(f);
    return result;
}

enum { ITEMS_DEPTH = 8 };

static bool has_anchor(const yaml_event_t *event)
{
    return event->type == YAML_ALIAS_EVENT ||
           (event->type == YAML_SCALAR_EVENT && event->data.scalar.anchor) ||
           (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.anchor) ||
           (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.anchor);
}

// What libyaml allocates for the node of an event: arrays grow by doubling, and small allocations
// take more than their size.
static size_t node_memory(const yaml_event_t *event)
{
    enum { ALLOCATION = 32 };
    size_t text = event->type == YAML_SCALAR_EVENT ? event->data.scalar.length : 0;
    return 2 * (sizeof(yaml_node_t) + sizeof(yaml_node_pair_t)) + 2 * ALLOCATION + text;
}

// Charges what libyaml needs for a text so far, beyond *charged. -1: there is no room, or no time.
static int charge_nodes(struct budget *budget, size_t needed, size_t *charged)
{
    if (!budget)
        return 0;
    if (budget_check(budget) != BUDGET_OK || budget_take(budget, needed - *charged))
        return -1;
    *charged = needed;
    return 0;
}

// Refuses what libyaml and the reader take more than linear time for. A text that is not YAML is
// left to them: they say where. What libyaml needs to load it is charged, in any case, and the
// caller releases it.
static int check_items(const char *name, struct str text, struct budget *budget, size_t *charged,
                       struct err *e)
{
    size_t events = 0, needed = 0;
    yaml_parser_t parser;
    int depth = 0, result = 0;
    if (!yaml_parser_initialize(&parser))
        return err_set(e, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
    for (bool more = true; more && !result;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event))
            break;
        size_t line = event.start_mark.line + 1;
        bool begins =
            event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
        bool ends = event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        depth += begins - ends;
        needed += node_memory(&event);
        if (++events % 4096 == 0 && charge_nodes(budget, needed, charged))
            result = budget_explain(budget, e);
        else if (has_anchor(&event))
            result = err_set(e, "%s:%zu: anchors and aliases are not supported", name, line);
        else if (depth > ITEMS_DEPTH)
            result = err_set(e, "%s:%zu: nested more than %d levels deep", name, line, ITEMS_DEPTH);
        more = event.type != YAML_DOCUMENT_END_EVENT && event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (!result && charge_nodes(budget, needed, charged))
        result = budget_explain(budget, e);
    return result;
}

int yaml_read_items(const char *name, struct str text, struct arena *arena,
                    const struct yaml_table *table, void *list, struct err *e)
{
    struct yaml_reader r = {.file = name, .arena = arena, .e = e};
    struct budget *budget = arena_budget(arena);
    yaml_parser_t parser;
    size_t charged = 0;
    int result = check_items(name, text, budget, &charged, e);
    if (!result && !yaml_parser_initialize(&parser))
        result = err_set(e, "out of memory");
    if (!result) {
        yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
        result = load_yaml(&r, &parser, &(struct destination){.table = table, .list = list});
    }
    if (budget)
        budget_release(&budget->account, charged);
    return result;
}
