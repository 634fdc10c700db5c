// The embedded web pages (web/): their files, and the document that loads them. The local viewer
// and the server serve them.
#pragma once

#include "net/http_server.h"

// Returns 0, or -1 with e filled if this build has no web pages (tools/build_web).
int pages_available(struct err *e);

// Finds an embedded file. Returns false if there is none with this name.
struct pages_asset {
    struct str gzipped;
    const char *type;
};
bool pages_find(struct str name, struct pages_asset *asset);
// Writes a file uncompressed. Generates palette.css. Returns -1 with e filled on failure.
int pages_write_file(struct str name, struct out *out, struct err *e);
// Writes the document of pages_document without an answer. part (may be NULL) is the prefix of the
// script with this home's pages.
void pages_write_document(struct out *out, const char *title, const char *base, struct str meta,
                          const char *first, const char *part);
extern const char pages_policy[]; // Content-Security-Policy

// For answers of http_server.h:

// Adds the headers that every answer has: a policy without inline scripts and styles, no sniffing.
void pages_guard(struct http_answer *a);

// Answers with the file of this name ("app.js"). Returns false if there is none. Browsers may cache
// it forever, because the document requests it by version.
bool pages_file(struct str name, const struct http_request *q, struct http_answer *a);

// Answers with the document. Its files are below base ("" or "/ui/"). meta is the JSON object that
// web/src/meta.ts reads: {"home":"server"} in the server, a description of the profile in the
// viewer. first (may be NULL) is the first URL that the page fetches, so that the browser can
// preload it.
void pages_document(const struct http_request *q, struct http_answer *a, const char *title,
                    const char *base, struct str meta, const char *first);

// Compresses the body with gzip if the client accepts it and the body is large enough.
void pages_compress(const struct http_request *q, struct http_answer *a);
