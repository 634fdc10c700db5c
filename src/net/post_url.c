#include <stdio.h>
#include <stdlib.h>

#include "net/http.h"
#include "net/post.h"

static int post_url_error(const char *text, const char *why, struct err *e)
{
    return err_set(e, "%.200s: %s; expected http://HOST:PORT or https://HOST", text, why);
}

static bool is_port(struct str s)
{
    uint64_t n;
    return s.n <= 5 && str_to_u64(s, 10, &n) && n >= 1 && n <= 65535;
}

// Whether s contains no space, no control character and none of others.
static bool is_plain_url_byte(struct str s, const char *others)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] <= ' ' || s.p[i] == 0x7f || strchr(others, s.p[i]))
            return false;
    return true;
}

// Takes the text before the first character of stop off *rest.
static struct str take_until(struct str *rest, const char *stop)
{
    size_t n = 0;
    while (n < rest->n && !strchr(stop, rest->p[n]))
        n++;
    struct str s = {rest->p, n};
    *rest = str_from_to(*rest, n, rest->n);
    return s;
}

int post_url_parse(struct post_url *url, const char *text, struct err *e)
{
    struct str rest = str_from(text);
    *url = (struct post_url){0};
    if (str_starts(rest, STR("https://")))
        url->tls = true;
    else if (!str_starts(rest, STR("http://")))
        return post_url_error(text, "not a URL of http or https", e);
    rest = str_from_to(rest, url->tls ? 8 : 7, rest.n);
    struct str authority = take_until(&rest, "/?#");
    for (size_t i = authority.n; i-- > 0;)
        if (authority.p[i] == '@') {
            if (http_unescape(str_from_to(authority, 0, i), false, url->login,
                              sizeof url->login - 1) < 0)
                return post_url_error("URL", "user and password are too long or badly escaped", e);
            authority = str_from_to(authority, i + 1, authority.n);
            break;
        }
    struct str host = authority, port = STR("");
    if (host.n && host.p[0] == '[') {
        size_t end = str_find(host, STR("]"), 0);
        if (end == SIZE_MAX)
            return post_url_error("URL", "missing ] after an IPv6 address", e);
        port = str_from_to(host, end + 1, host.n);
        host = str_from_to(host, 1, end);
    } else {
        size_t colon = str_find(host, STR(":"), 0);
        if (colon != SIZE_MAX) {
            port = str_from_to(host, colon, host.n);
            host = str_from_to(host, 0, colon);
        }
    }
    if (host.n == 0 || host.n >= sizeof url->host || !is_plain_url_byte(host, "[]"))
        return post_url_error("URL", "no host", e);
    if (port.n && (port.p[0] != ':' || !is_port(str_from_to(port, 1, port.n))))
        return post_url_error("URL", "invalid port; expected 1 to 65535", e);
    while (rest.n && rest.p[rest.n - 1] == '/')
        rest.n--;
    if (!is_plain_url_byte(rest, "?#"))
        return post_url_error("URL", "unexpected query, fragment or space", e);
    if (rest.n >= sizeof url->path)
        return post_url_error("URL", "the path is too long", e);
    snprintf(url->host, sizeof url->host, "%.*s", (int)host.n, host.p);
    snprintf(url->path, sizeof url->path, "%.*s", (int)rest.n, rest.p);
    if (port.n)
        snprintf(url->port, sizeof url->port, "%.*s", (int)(port.n - 1), port.p + 1);
    else
        snprintf(url->port, sizeof url->port, "%s", url->tls ? "443" : "80");
    snprintf(url->shown, sizeof url->shown, "%s://%.*s%s", url->tls ? "https" : "http",
             (int)authority.n, authority.p, url->path);
    return 0;
}
