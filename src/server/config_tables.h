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

extern const struct yaml_table config_scrape_table, config_group_table;
