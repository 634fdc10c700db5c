#include "net/multipart.h"

#include <strings.h>

// Returns a parameter of a header: `; name=value` or `; name="value"`.
static struct str header_parameter(struct str header, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < header.n; i++) {
        if (header.p[i] != ';')
            continue;
        size_t at = i + 1;
        while (at < header.n && (header.p[at] == ' ' || header.p[at] == '\t'))
            at++;
        if (header.n - at <= n || strncasecmp(header.p + at, name, n) != 0 ||
            header.p[at + n] != '=')
            continue;
        at += n + 1;
        bool quoted = at < header.n && header.p[at] == '"';
        size_t from = at += quoted;
        while (at < header.n && (quoted ? header.p[at] != '"' : header.p[at] != ';'))
            at++;
        struct str value = str_from_to(header, from, at);
        return quoted ? value : str_trim(value);
    }
    return (struct str){NULL, 0};
}

// Returns the start of the next line, at or after from, that begins with --boundary.
static size_t find_boundary(const struct multipart *m, size_t from)
{
    for (size_t at = from; (at = str_find(m->rest, STR("--"), at)) != SIZE_MAX; at++)
        if ((at == 0 || m->rest.p[at - 1] == '\n') && m->rest.n - at - 2 >= m->boundary.n &&
            memcmp(m->rest.p + at + 2, m->boundary.p, m->boundary.n) == 0)
            return at;
    return SIZE_MAX;
}

int multipart_begin(struct multipart *m, struct str type, struct str body, struct err *e)
{
    m->boundary = header_parameter(type, "boundary");
    m->rest = body;
    if (!m->boundary.n || m->boundary.n > 200)
        return err_set(e, "multipart: the Content-Type has no boundary");
    size_t at = find_boundary(m, 0);
    if (at == SIZE_MAX)
        return err_set(e, "multipart: the body does not contain its boundary");
    m->rest = str_from_to(body, at, body.n);
    return 0;
}

// Finds the name in the headers of a part. *end is the position after their empty line.
static int multipart_part_name(struct str rest, struct str *name, size_t *end, struct err *e)
{
    struct str left = rest, line;
    *name = (struct str){"", 0};
    while (str_next_line(&left, &line)) {
        if (!line.n) {
            *end = (size_t)(left.p - rest.p);
            return 0;
        }
        const char *header = "Content-Disposition:";
        if (line.n > strlen(header) && strncasecmp(line.p, header, strlen(header)) == 0) {
            struct str value = header_parameter(line, "name");
            if (value.p)
                *name = value;
        }
    }
    return err_set(e, "multipart: the headers of a part do not end");
}

int multipart_next(struct multipart *m, struct str *name, struct str *content, struct err *e)
{
    size_t after = 2 + m->boundary.n;
    if (m->rest.n >= after + 2 && memcmp(m->rest.p + after, "--", 2) == 0)
        return 0;
    struct str line, rest = m->rest;
    size_t head = 0;
    if (!str_next_line(&rest, &line) || multipart_part_name(rest, name, &head, e))
        return err_set(e, "multipart: a part is cut short");
    struct multipart body = {str_from_to(rest, head, rest.n), m->boundary};
    size_t end = find_boundary(&body, 0);
    if (end == SIZE_MAX)
        return err_set(e, "multipart: the part '%.*s' does not end with the boundary",
                       name->n < 40 ? (int)name->n : 40, name->p);
    size_t length = end;
    if (length && body.rest.p[length - 1] == '\n')
        length--;
    if (length && body.rest.p[length - 1] == '\r')
        length--;
    *content = str_from_to(body.rest, 0, length);
    m->rest = str_from_to(body.rest, end, body.rest.n);
    return 1;
}
