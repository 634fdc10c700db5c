// multipart/form-data, as browsers and Pyroscope's agents send it.
#pragma once

#include "base/err.h"
#include "base/str.h"

struct multipart {
    struct str rest, boundary;
};

// type is the Content-Type with its boundary. -1 with e filled.
int multipart_begin(struct multipart *m, struct str type, struct str body, struct err *e);
// The next part, pointing into the body: 1, 0 after the last, -1 with e filled.
int multipart_next(struct multipart *m, struct str *name, struct str *content, struct err *e);
