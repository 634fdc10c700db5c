// The local viewer: one profile, or two to compare, on pages for a browser. `kiln web` and
// `kiln pprof -http` start it; the pages themselves are made of web/.
//
// Pages have the URLs and parameters of pprof's web interface. Each page is the same document; it
// asks for what it shows below api/. Requests that take long are answered one at a time, each
// from an arena of its own; the profile is only read.
#pragma once

#include "cli/config.h"
#include "cli/source.h"
#include "model/profile.h"
#include "net/http_server.h"

struct web {
    const struct model_profile *p;        // what is shown; a base is taken away
    const struct model_profile *sides[2]; // before and after, if they are to be compared
    struct config config;                 // what the command line says
    const char *title;
    bool check_host;
    const char *host; // that was asked for
};

// The profiles that source names, and what they are called. -1 with e filled.
int web_load(struct web *web, const struct source *source, struct arena *arena, struct err *e);

struct web_options {
    const char *listen; // as for listener_open
    bool no_browser;
    void (*say)(const char *text); // told the address
};

// Serves until SIGINT or SIGTERM.
int web_serve(struct web *web, const struct web_options *options, struct err *e);

// --- its parts ---

// A request for data: what it asks for, and where the answer goes.
struct web_query {
    const struct web *web;
    const struct http_request *request;
    struct config config; // the command line's, changed by the parameters
    struct arena *arena;
    struct out *out;
};

// Reads the parameters that are options of reports. -1 with e filled.
int web_read_config(struct web_query *q, struct err *e);
// A parameter as text in the arena; "" if there is none. NULL with e filled.
const char *web_parameter(struct web_query *q, const char *name, struct err *e);
// Whether a parameter is there and true.
bool web_flag(struct web_query *q, const char *name);

// What stands around a page's data: types, names, which views there are; also how many notes
// (what the user should know about the filters) came up.
void web_write_meta(const struct web *web, struct out *out);
void web_note(const char *text); // for view_prepare
void web_write_notes(struct out *out);

// The views: JSON, HTML or text into q->out. 0, or -1 with e filled.
int web_flame(struct web_query *q, struct err *e);
int web_top(struct web_query *q, struct err *e);
int web_graph(struct web_query *q, struct err *e);
int web_peek(struct web_query *q, struct err *e);
int web_source(struct web_query *q, struct err *e);
int web_disasm(struct web_query *q, struct err *e);
int web_export(struct web_query *q, struct err *e);   // the flame graph as a file
int web_download(struct web_query *q, struct err *e); // the profile as pprof

// Where `dot` would put things. nodes: x, y of n_nodes boxes, in pixels from the top left. False
// if there is no dot or it takes too long; then nothing was written.
struct web_box {
    double width, height, x, y;
};
struct web_line {
    uint32_t from, to;
    double weight;  // 0..1
    double *points; // x, y of the Bezier curve that it is drawn by
    size_t n_points;
};
bool web_dot(struct web_box *boxes, size_t n_boxes, struct web_line *lines, size_t n_lines,
             struct arena *arena);

// Named settings as pprof keeps them, in its own file.
int web_save_config(struct web_query *q, struct err *e);
int web_delete_config(struct web_query *q, struct err *e);
void web_write_configs(struct out *out);
