// How the tables of the configuration's keys are written down.
#pragma once

#include "server/config.h"
#include "server/yaml_read.h"

#define KEY(name, kind, type, member)                  \
    {                                                  \
        name, kind, offsetof(type, member), NULL, NULL \
    }
#define OF(name, kind, type, member, table)              \
    {                                                    \
        name, kind, offsetof(type, member), &table, NULL \
    }
#define END                             \
    {                                   \
        NULL, YAML_OTHER, 0, NULL, NULL \
    }

extern const struct yaml_table config_scrape_table, config_group_table, config_kube_table;
extern const struct yaml_table config_alert_table, config_rule_table;
extern const struct yaml_table config_basic_table, config_authorization_table, config_tls_table;

// The keys of struct request_auth, whatever has it.
#define AUTH_KEYS(type)                                                            \
    OF("basic_auth", YAML_MAPPING, type, auth, config_basic_table),                \
        OF("authorization", YAML_MAPPING, type, auth, config_authorization_table), \
        KEY("bearer_token", YAML_TEXT, type, auth.credentials),                    \
        KEY("bearer_token_file", YAML_TEXT, type, auth.credentials_file),          \
        OF("tls_config", YAML_MAPPING, type, auth, config_tls_table)

int config_check_auth(struct yaml_reader *r, yaml_node_t *node, struct request_auth *a);
// From 1 s to 1 d.
int config_check_duration(struct yaml_reader *r, yaml_node_t *node, const char *key, int64_t nanos);
// Whether a URL is one of http or https.
bool config_is_url(struct str url);
// The same, and it has a host, no credentials, no fragment, and nothing that cannot be sent.
bool config_is_plain_url(struct str url);
