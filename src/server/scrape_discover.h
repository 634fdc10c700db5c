// Which services there are to scrape: from the configuration, from files, from URLs, and what
// relabeling makes of them.
#pragma once

#include "base/out.h"
#include "server/config.h"

// One profile of one service.
struct scrape_target {
    const struct scrape_config *config;
    const struct scrape_profile *profile;
    struct str tenant;
    const char *key; // tells it from all others
    const char *url;
    struct store_label *labels; // of the series, without __name__
    size_t n_labels;
};

// The targets of all jobs, and how many could not be used, with the first reason.
struct scrape_targets {
    struct scrape_target *items;
    size_t n, cap;
    size_t unusable;
    struct err why;
};

// How the targets of a job are made. In arena, as the targets.
struct scrape_job {
    const struct scrape_config *config;
    struct scrape_rules *rules;
    size_t addresses; // so far
    struct arena *arena;
    // Of the labels before and during relabeling; NULL: arena. It must outlive the call that uses
    // it, no more. If it jumps, the targets so far are kept.
    struct arena *scratch;
    struct out text; // in arena, for one text at a time: a copy takes what it needs and no more
};

// -1 with e filled if a regular expression cannot be used.
int scrape_job_init(struct scrape_job *job, const struct scrape_config *config, struct arena *arena,
                    struct err *e);
// Adds the targets of the groups. Those that relabeling drops are not among them. discovered: the
// groups come from outside the configuration and cannot choose a tenant if that names one.
void scrape_add_groups(struct scrape_job *job, const struct target_group *groups, size_t n,
                       bool discovered, struct scrape_targets *targets);
// What a file or a URL holds: [{"targets": [...], "labels": {...}}, ...] in JSON or YAML.
int scrape_read_groups(const char *name, struct str text, struct arena *arena,
                       struct target_group **groups, size_t *n, struct err *e);
// Writes ?NAME=VALUE or, unless it is the first one, &NAME=VALUE.
void scrape_put_parameter(struct out *out, struct str name, struct str value, bool *first);
// For how long the target is asked to profile itself; 0: it answers at once.
int64_t scrape_seconds(const struct scrape_target *target);
// A URL without user and password, for logs and answers.
const char *scrape_shown_url(const char *url, struct arena *arena);

// The compiled rules, in arena; NULL with e filled.
struct scrape_rules *scrape_rules_new(const struct relabel_rule *rules, size_t n,
                                      struct arena *arena, struct err *e);
// Applies the rules to labels (*n of them), in arena; *keep false: the target is dropped. -1 with e
// filled if a rule takes too long on these labels.
int scrape_relabel(struct scrape_rules *rules, struct store_label **labels, size_t *n,
                   struct arena *arena, bool *keep, struct err *e);
