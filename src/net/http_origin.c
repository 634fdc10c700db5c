#include <arpa/inet.h>
#include <strings.h>

#include "net/http.h"

static bool is_number(struct str host)
{
    char text[64];
    unsigned char address[16];
    if (host.n >= sizeof text)
        return false;
    memcpy(text, host.p, host.n);
    text[host.n] = '\0';
    return inet_pton(AF_INET, text, address) == 1;
}

static bool same_name(struct str a, const char *b)
{
    return a.n == strlen(b) && strncasecmp(a.p, b, a.n) == 0;
}

bool http_trusts_origin(const struct http_request *q, bool check_host, const char *host,
                        struct err *e)
{
    struct str site = http_header(q, STR("Sec-Fetch-Site"));
    if ((str_eq(site, STR("cross-site")) || str_eq(site, STR("same-site"))) &&
        !str_eq(http_header(q, STR("Sec-Fetch-Mode")), STR("navigate"))) {
        err_set(e, "another site's page may link here but not embed or fetch what is here");
        return false;
    }
    struct str name = q->host;
    if (!check_host || name.n == 0 || name.p[0] == '[')
        return true;
    size_t colon = str_find(name, STR(":"), 0);
    if (colon != SIZE_MAX)
        name.n = colon;
    if (same_name(name, "localhost") || same_name(name, host) || is_number(name))
        return true;
    err_set(e,
            "this server is for this machine only: the request's Host, %.*s, is neither "
            "localhost nor an address",
            (int)(name.n < 100 ? name.n : 100), name.p);
    return false;
}
