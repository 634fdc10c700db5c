// The local viewer: one profile, or two to compare, as web pages. `kiln web` and `kiln pprof -http`
// start it; the pages are in web/.
//
// URLs and parameters are those of pprof's web interface. All pages are the same document, which
// requests its data from api/. Expensive requests are answered one at a time, each with its own
// arena; the profile is read-only.
#pragma once

#include "cli/config.h"
#include "cli/source.h"
#include "model/profile.h"
#include "net/http_server.h"

struct viewer {
    const struct model_profile *p;        // the displayed profile; a base is subtracted
    const struct model_profile *sides[2]; // before and after, if they are compared
    struct config config;                 // from the command line
    const char *title;
    bool check_host;
    const char *host; // requested host
};

// Loads the profiles of source and sets the title. Returns -1 and fills e on failure.
int viewer_load(struct viewer *viewer, const struct source *source, struct arena *arena,
                struct err *e);

struct viewer_options {
    const char *listen; // as for listener_open
    bool no_browser;
    void (*say)(const char *text); // receives the address
};

// Serves until SIGINT or SIGTERM.
int viewer_serve(struct viewer *viewer, const struct viewer_options *options, struct err *e);

// --- internal ---

// A request for data and the destination of its answer.
struct viewer_query {
    const struct viewer *viewer;
    const struct http_request *request;
    struct config config; // from the command line, modified by the parameters
    struct arena *arena;
    struct out *out;
};

// Parses the parameters that are report options. Returns -1 and fills e on failure.
int viewer_read_config(struct viewer_query *q, struct err *e);
// Returns a parameter as text in the arena; "" if missing. Returns NULL and fills e on failure.
const char *viewer_parameter(struct viewer_query *q, const char *name, struct err *e);
// Whether a parameter is present and true.
bool viewer_flag(struct viewer_query *q, const char *name);

// Writes the metadata of a page: types, names, available views, saved settings.
void viewer_write_meta(const struct viewer *viewer, struct out *out);
void viewer_note(const char *text); // for view_prepare
void viewer_write_notes(struct out *out);

// The views write JSON, HTML or text to q->out. They return 0, or -1 and fill e.
int viewer_flame(struct viewer_query *q, struct err *e);
int viewer_top(struct viewer_query *q, struct err *e);
int viewer_graph(struct viewer_query *q, struct err *e);
int viewer_peek(struct viewer_query *q, struct err *e);
int viewer_source(struct viewer_query *q, struct err *e);
int viewer_disasm(struct viewer_query *q, struct err *e);
int viewer_export(struct viewer_query *q, struct err *e);   // the flame graph as a file
int viewer_download(struct viewer_query *q, struct err *e); // the profile as pprof

// Lays out boxes and lines with `dot`, in pixels from the top left. Returns false if dot is missing
// or too slow, or if there are too many lines; then positions are undefined.
struct viewer_box {
    double width, height, x, y;
};
struct viewer_line {
    uint32_t from, to;
    double weight;  // 0..1
    double *points; // x, y of its Bezier curve
    size_t n_points;
};
bool viewer_dot(struct viewer_box *boxes, size_t n_boxes, struct viewer_line *lines, size_t n_lines,
                struct arena *arena);

// Named settings in pprof's own file and format.
int viewer_save_config(struct viewer_query *q, struct err *e);
int viewer_delete_config(struct viewer_query *q, struct err *e);
void viewer_write_configs(struct out *out);
