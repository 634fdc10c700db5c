// The web pages that are embedded into the command (web/): their files, and the document that
// loads them. The local viewer and the server answer with them.
#pragma once

#include "net/http_server.h"

// 0, or -1 with a sentence in e if this build was made without them (tools/build_web).
int pages_available(struct err *e);

// A file as it is embedded. False if there is none of that name.
struct pages_asset {
    struct str gzipped;
    const char *type;
};
bool pages_find(struct str name, struct pages_asset *asset);
// The same, inflated, or made now; -1 with e filled.
int pages_write_file(struct str name, struct out *out, struct err *e);
// As pages_document, without an answer around it. part (may be NULL) is how the file begins that
// this home's pages are in.
void pages_write_document(struct out *out, const char *title, const char *base, struct str meta,
                          const char *first, const char *part);
extern const char pages_policy[]; // Content-Security-Policy

// For answers of http_server.h:

// The headers that every answer has: a policy without inline scripts and styles, no sniffing.
void pages_guard(struct http_answer *a);

// Answers with the file of that name ("app.js"); false if there is none. It may be kept for ever:
// the document asks for it by its version.
bool pages_file(struct str name, const struct http_request *q, struct http_answer *a);

// Answers with the document. Its files are below base ("" or "/ui/"); meta is the JSON object that
// web/src/meta.ts reads: the server's says {"home":"server"}, the viewer's describes its profile.
// first (may be NULL) is what the page is going to fetch: the browser need not wait for the script.
void pages_document(const struct http_request *q, struct http_answer *a, const char *title,
                    const char *base, struct str meta, const char *first);

// Gzips the body if the client takes that and it is worth it.
void pages_compress(const struct http_request *q, struct http_answer *a);
