// Parses multipart/form-data, which browsers and Pyroscope's agents send.
#pragma once

#include "base/err.h"
#include "base/str.h"

struct multipart {
    struct str rest, boundary;
};

// Starts parsing body. type is the Content-Type with the boundary. Returns -1 with e filled if
// there is no boundary.
int multipart_begin(struct multipart *m, struct str type, struct str body, struct err *e);
// Returns the next part: 1, 0 after the last one, or -1 with e filled. name and content point into
// the body.
int multipart_next(struct multipart *m, struct str *name, struct str *content, struct err *e);
