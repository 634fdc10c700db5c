// What has to be known about old agents to read what they send.
#pragma once

#include "server/ingest.h"

// sample_type_config of a form.
struct ingest_sample_type {
    struct str type, display;
    bool cumulative;
};

struct ingest_types {
    bool given;
    struct ingest_sample_type *items;
    size_t n;
};

// `__name__` of a pprof profile, by its types and what the configuration calls them.
struct str ingest_metric(const struct model_profile *p, const struct ingest_types *types);

bool ingest_is_dotnet(struct str spy, const struct ingest_types *types);
// The .NET agent gives all functions the id 0 and means that of the location.
struct model_profile *ingest_fix_dotnet(const struct server_limits *limits, struct arena *arena,
                                        struct str data, struct err *e);
// `inuse-space` becomes `inuse_space`.
void ingest_fix_type_names(struct model_profile *p);
// py-spy and rbspy: the file goes in front of a function's name, where it tells modules apart.
void ingest_fix_script_names(struct model_profile *p, struct str spy, struct arena *arena);

// p less what before had already counted, in the types that are cumulative; what fell counts as
// zero. NULL with e filled if no type is.
struct model_profile *ingest_subtract(struct model_profile *p, struct model_profile *before,
                                      const struct ingest_types *types, struct arena *arena,
                                      struct err *e);
