// YAML into structs by tables of keys. Errors name file, line and key.
#pragma once

#include <yaml.h>

#include "base/arena.h"
#include "base/str.h"

struct yaml_reader {
    const char *file;
    yaml_document_t document;
    struct arena *arena;
    struct err *e;
};

enum yaml_kind {
    YAML_TEXT,     // struct str
    YAML_CTEXT,    // const char *
    YAML_BOOL,     // bool
    YAML_COUNT,    // uint32_t
    YAML_BYTES,    // size_t: 64MB, 1GiB, 4096
    YAML_DURATION, // int64_t, ns: 500ms, 10s, 5m, 1h, 7d, 2w
    YAML_TEXTS,    // struct str * and, behind it, size_t
    YAML_LABELS,   // struct store_label * and, behind it, size_t: a mapping of texts
    YAML_ITEMS,    // element * and, behind it, size_t: a sequence of mappings
    YAML_MAPPING,  // the keys of another table, into the same object
    YAML_OTHER,    // what read says
};

struct yaml_table;

struct yaml_key {
    const char *name;
    enum yaml_kind kind;
    size_t offset;
    const struct yaml_table *table; // of items and mappings
    int (*read)(struct yaml_reader *r, const char *key, yaml_node_t *value, void *object);
};

struct yaml_table {
    const struct yaml_key *keys; // NULL-name-terminated
    size_t size;                 // of an element
    void (*defaults)(void *element);
    int (*check)(struct yaml_reader *r, yaml_node_t *node, void *element);
};

// Reads the whole file into object. -1 with e filled. An empty file is an empty mapping.
int yaml_read_file(const char *file, struct arena *arena, const struct yaml_table *table,
                   void *object, struct err *e);
// The same for a text from outside that is a sequence of mappings, into element * and size_t at
// list. Anchors and aliases, which make little text large, and deep nesting are refused.
int yaml_read_items(const char *name, struct str text, struct arena *arena,
                    const struct yaml_table *table, void *list, struct err *e);
int yaml_read_mapping(struct yaml_reader *r, yaml_node_t *node, const struct yaml_table *table,
                      void *object);
// `FILE:LINE: key: ...`; returns -1.
int yaml_fail(struct yaml_reader *r, const yaml_node_t *at, const char *key, const char *format,
              ...) __attribute__((format(printf, 4, 5)));
int yaml_text(struct yaml_reader *r, const char *key, yaml_node_t *node, struct str *text);
