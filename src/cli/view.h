// From a profile and a config to a report: the order of filters, totals and granularity.
#pragma once

#include "cli/config.h"
#include "model/profile.h"
#include "report/report.h"

struct view_command {
    const char *name;
    enum report_format format;
    bool takes_regexp;
    const char *post;           // the picture that dot makes of it: "svg", "png", ...
    const char *extension;      // of a file that is made so as not to fill a terminal
    const char *const *viewers; // programs that show it
    const char *summary, *usage;
};

// NULL-name-terminated.
extern const struct view_command view_commands[];
const struct view_command *view_command_find(const char *name);

// Prepares a report: filters p as config says and fills *r, whose memory comes from
// arena. argument is the command's regexp or NULL. notes (may be NULL) is told what the
// user should know ("Focus expression matched no samples").
int view_prepare(struct report *r, const struct model_profile *p,
                 const struct view_command *command, const char *argument,
                 const struct config *config, struct arena *arena, void (*notes)(const char *text),
                 struct err *e);

// The samples and frames of p that config's filters leave, with the frames that tagroot and
// tagleaf ask for: for what is no report. NULL with e filled.
const struct model_profile *view_filter(const struct model_profile *p, const struct config *config,
                                        struct arena *arena, void (*notes)(const char *text),
                                        struct err *e);
