// Turns a profile and a config into a report: determines the order of filters, totals and
// granularity.
#pragma once

#include "cli/config.h"
#include "model/profile.h"
#include "report/report.h"

struct view_command {
    const char *name;
    enum report_format format;
    bool takes_regexp;
    const char *post;           // image format for dot: "svg", "png", ...
    const char *extension;      // of the file written instead of filling a terminal
    const char *const *viewers; // programs that display it
    const char *summary, *usage;
};

// Terminated by a NULL name.
extern const struct view_command view_commands[];
const struct view_command *view_command_find(const char *name);

// Prepares a report: filters p according to config and fills *r, with memory from arena. argument
// is the command's regexp or NULL. notes (may be NULL) receives messages for the user ("Focus
// expression matched no samples").
int view_prepare(struct report *r, const struct model_profile *p,
                 const struct view_command *command, const char *argument,
                 const struct config *config, struct arena *arena, void (*notes)(const char *text),
                 struct err *e);

// Whether the report needs only sums of samples, whichever profile it is of.
bool view_needs_only_sums(const struct view_command *command, const struct config *config);

// Returns p after config's filters, with the frames added by tagroot and tagleaf; for output other
// than reports. Returns NULL and fills e on failure.
const struct model_profile *view_filter(const struct model_profile *p, const struct config *config,
                                        struct arena *arena, void (*notes)(const char *text),
                                        struct err *e);
