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

struct viewer {
    const struct model_profile *p;        // what is shown; a base is taken away
    const struct model_profile *sides[2]; // before and after, if they are to be compared
    struct config config;                 // what the command line says
    const char *title;
    bool check_host;
    const char *host; // that was asked for
};

// The profiles that source names, and what they are called. -1 with e filled.
int viewer_load(struct viewer *viewer, const struct source *source, struct arena *arena,
                struct err *e);

struct viewer_options {
    const char *listen; // as for listener_open
    bool no_browser;
    void (*say)(const char *text); // told the address
};

// Serves until SIGINT or SIGTERM.
int viewer_serve(struct viewer *viewer, const struct viewer_options *options, struct err *e);

// --- its parts ---

// A request for data: what it asks for, and where the answer goes.
struct viewer_query {
    const struct viewer *viewer;
    const struct http_request *request;
    struct config config; // the command line's, changed by the parameters
    struct arena *arena;
    struct out *out;
};

// Reads the parameters that are options of reports. -1 with e filled.
int viewer_read_config(struct viewer_query *q, struct err *e);
// A parameter as text in the arena; "" if there is none. NULL with e filled.
const char *viewer_parameter(struct viewer_query *q, const char *name, struct err *e);
// Whether a parameter is there and true.
bool viewer_flag(struct viewer_query *q, const char *name);

// What stands around a page's data: types, names, which views there are; also how many notes
// (what the user should know about the filters) came up.
void viewer_write_meta(const struct viewer *viewer, struct out *out);
void viewer_note(const char *text); // for view_prepare
void viewer_write_notes(struct out *out);

// The views: JSON, HTML or text into q->out. 0, or -1 with e filled.
int viewer_flame(struct viewer_query *q, struct err *e);
int viewer_top(struct viewer_query *q, struct err *e);
int viewer_graph(struct viewer_query *q, struct err *e);
int viewer_peek(struct viewer_query *q, struct err *e);
int viewer_source(struct viewer_query *q, struct err *e);
int viewer_disasm(struct viewer_query *q, struct err *e);
int viewer_export(struct viewer_query *q, struct err *e);   // the flame graph as a file
int viewer_download(struct viewer_query *q, struct err *e); // the profile as pprof

// Where `dot` would put things. nodes: x, y of n_nodes boxes, in pixels from the top left. False
// if there is no dot or it takes too long; then nothing was written.
struct viewer_box {
    double width, height, x, y;
};
struct viewer_line {
    uint32_t from, to;
    double weight;  // 0..1
    double *points; // x, y of the Bezier curve that it is drawn by
    size_t n_points;
};
bool viewer_dot(struct viewer_box *boxes, size_t n_boxes, struct viewer_line *lines, size_t n_lines,
                struct arena *arena);

// Named settings as pprof keeps them, in its own file.
int viewer_save_config(struct viewer_query *q, struct err *e);
int viewer_delete_config(struct viewer_query *q, struct err *e);
void viewer_write_configs(struct out *out);
