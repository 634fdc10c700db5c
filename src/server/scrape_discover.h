// Which services there are to scrape: from the configuration, from files, from URLs, and what
// relabelling makes of them.
#pragma once

#include "server/config.h"

// One profile of one service.
struct scrape_target {
    const struct scrape_config *config;
    const struct scrape_profile *profile;
    const char *key; // tells it from all others
    const char *url;
    struct store_label *labels; // of the series, without __name__
    size_t n_labels;
};

struct scrape_targets {
    struct scrape_target *items;
    size_t n, cap;
};

// The targets of the groups, in arena. Those that relabelling drops are not among them.
int scrape_add_groups(const struct scrape_config *config, const struct target_group *groups,
                      size_t n, struct arena *arena, struct scrape_targets *targets, struct err *e);
// What a file or a URL holds: [{"targets": [...], "labels": {...}}, ...] in JSON or YAML.
int scrape_read_groups(const char *name, struct str text, struct arena *arena,
                       struct target_group **groups, size_t *n, struct err *e);

// Applies the rules to labels (*n of them, room for cap), in arena; false: the target is dropped.
// -1 with e filled if an expression cannot be used.
int scrape_relabel(const struct relabel_rule *rules, size_t n_rules, struct store_label **labels,
                   size_t *n, struct arena *arena, bool *keep, struct err *e);
