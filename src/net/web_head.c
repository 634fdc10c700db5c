// Detects heads that a proxy or libmicrohttpd could interpret differently (request smuggling).
#include <stdint.h>
#include <strings.h>

#include "net/web_server.h"

// --- headers as libmicrohttpd parsed them ---

struct framing {
    unsigned lengths, encodings, malformed;
    unsigned seen, repeated; // of singles: which ones, and how many more than once
};

// Headers of which there may be one, because a proxy may have checked, or added, another one than
// the first.
static const char *const singles[] = {"Host", "Authorization", "X-Scope-OrgID", "Origin"};

// RFC 9110, 5.6.2
static bool is_field_name(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] <= ' ' || p[i] == 0x7f || strchr("\"(),/:;<=>?@[\\]{}", p[i]))
            return false;
    return n > 0;
}

// Values may contain tabs but no other control characters.
static bool is_field_value(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)p[i] < ' ' && p[i] != '\t') || p[i] == 0x7f)
            return false;
    return true;
}

static enum MHD_Result count_framing(void *context, enum MHD_ValueKind kind, const char *name,
                                     size_t n_name, const char *value, size_t n_value)
{
    struct framing *f = context;
    (void)kind;
    f->malformed += !is_field_name(name, n_name) || (value && !is_field_value(value, n_value));
    f->lengths += strcasecmp(name, "Content-Length") == 0;
    f->encodings += strcasecmp(name, "Transfer-Encoding") == 0;
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++)
        if (strcasecmp(name, singles[i]) == 0) {
            f->repeated += (f->seen >> i) & 1;
            f->seen |= 1u << i;
        }
    return MHD_YES;
}

// --- comparison with the received bytes ---

// libmicrohttpd 0.9 treats a header without a name as the end of the head, a NUL as the end of a
// value, and LF as CRLF. Version 1.0 rejects these (MHD_OPTION_STRICT_FOR_CLIENT). Version 0.9
// parses heads in the receive buffer: it replaces the colon, CR and LF by NULs, and its results
// point there. So compare its results with the bytes: they must be the version, CRLF, then for each
// header its name, a colon, blanks, its value and CRLF, and a final CRLF.
static bool parses_in_place(void)
{
    static const char *const versions[] = {"0.9.75", "0.9.76", "0.9.77"};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (strcmp(web_library.get_version(), versions[i]) == 0)
            return true;
    return false;
}

void web_head_hide_query(const char *uri)
{
    char *query = parses_in_place() ? strchr((char *)(uintptr_t)uri, '?') : NULL;
    if (query && query[1])
        query[1] = '\0';
}

struct head_bytes {
    const char *at, *end; // bytes not compared yet
    bool differs;
};

static void skip_head_line_end(struct head_bytes *h)
{
    h->differs |= h->end - h->at < 2 || h->at[0] || h->at[1];
    h->at += h->differs ? 0 : 2;
}

// The next n bytes must be text, at exactly this address.
static void skip_head_text(struct head_bytes *h, const char *text, size_t n)
{
    h->differs |= text != h->at || n > (size_t)(h->end - h->at);
    h->at += h->differs ? 0 : n;
}

static enum MHD_Result compare_header(void *context, enum MHD_ValueKind kind, const char *name,
                                      size_t n_name, const char *value, size_t n_value)
{
    struct head_bytes *h = context;
    (void)kind;
    skip_head_text(h, name, n_name);
    h->differs |= h->at == h->end || *h->at;
    if (!h->differs)
        h->at++;
    while (!h->differs && h->at < h->end && (*h->at == ' ' || *h->at == '\t'))
        h->at++;
    skip_head_text(h, value, n_value);
    skip_head_line_end(h);
    return h->differs ? MHD_NO : MHD_YES;
}

static bool differs_from_bytes(struct web_request *r, const char *method, const char *version)
{
    const union MHD_ConnectionInfo *info =
        web_library.get_connection_info(r->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    size_t n = info ? info->header_size : 0;
    if (version < method || version >= method + n) // no version
        return true;
    struct head_bytes h = {.at = version, .end = method + n};
    skip_head_text(&h, version, strnlen(version, (size_t)(h.end - version)));
    skip_head_line_end(&h);
    web_library.get_connection_values_n(r->connection, MHD_HEADER_KIND, compare_header, &h);
    skip_head_line_end(&h);
    return h.differs || h.at != h.end;
}

bool web_head_is_ambiguous(struct web_request *r, const char *method, const char *version)
{
    struct framing f = {0};
    web_library.get_connection_values_n(r->connection, MHD_HEADER_KIND, count_framing, &f);
    struct str encoding = web_header(&r->x, "Transfer-Encoding");
    bool unknown = encoding.p && !(encoding.n == 7 && strncasecmp(encoding.p, "chunked", 7) == 0);
    return f.malformed || f.lengths > 1 || f.encodings > 1 || f.repeated ||
           (f.lengths && f.encodings) || unknown ||
           (parses_in_place() && differs_from_bytes(r, method, version));
}
