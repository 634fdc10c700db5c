#include <arpa/inet.h>
#include <strings.h>
#include <unistd.h>

#include "net/http.h"

static bool is_ipv4_address(struct str host)
{
    char text[64];
    unsigned char address[16];
    if (host.n >= sizeof text)
        return false;
    memcpy(text, host.p, host.n);
    text[host.n] = '\0';
    return inet_pton(AF_INET, text, address) == 1;
}

static bool is_same_host(struct str a, const char *b)
{
    return a.n == strlen(b) && strncasecmp(a.p, b, a.n) == 0;
}

static struct str without_port(struct str host)
{
    if (host.n && host.p[0] == '[') {
        const char *end = memchr(host.p, ']', host.n);
        return end ? (struct str){host.p, (size_t)(end - host.p) + 1} : host;
    }
    size_t colon = str_find(host, STR(":"), 0);
    if (colon != SIZE_MAX)
        host.n = colon;
    if (host.n && host.p[host.n - 1] == '.')
        host.n--;
    return host;
}

static bool has_domain_suffix(struct str name, struct str end)
{
    return name.n > end.n && strncasecmp(name.p + name.n - end.n, end.p, end.n) == 0;
}

static bool is_listed_host(struct str name, const struct str *hosts, size_t n_hosts)
{
    for (size_t i = 0; i < n_hosts; i++)
        if (str_eq(hosts[i], STR("*")) ||
            (hosts[i].n == name.n && strncasecmp(hosts[i].p, name.p, name.n) == 0) ||
            (hosts[i].n && hosts[i].p[0] == '.' && has_domain_suffix(name, hosts[i])))
            return true;
    return false;
}

static bool is_linked(struct str fetch_site, struct str fetch_mode, bool changes)
{
    bool other = str_eq(fetch_site, STR("cross-site")) || str_eq(fetch_site, STR("same-site"));
    return !other || (str_eq(fetch_mode, STR("navigate")) && !changes);
}

bool http_trusts_site(const struct http_site *site, const struct str *hosts, size_t n_hosts,
                      struct err *e)
{
    if (!is_linked(site->fetch_site, site->fetch_mode, site->changes)) {
        err_set(e, "cross-site request: pages of other sites may link to this server, but not "
                   "fetch, embed or post");
        return false;
    }
    if (!site->origin.n || site->fetch_site.n || !site->changes)
        return true;
    size_t scheme = str_find(site->origin, STR("://"), 0);
    struct str origin =
        scheme == SIZE_MAX ? site->origin : str_from_to(site->origin, scheme + 3, site->origin.n);
    if (scheme != SIZE_MAX &&
        ((origin.n == site->host.n && strncasecmp(origin.p, site->host.p, origin.n) == 0) ||
         is_listed_host(without_port(origin), hosts, n_hosts)))
        return true;
    err_set(e,
            "cross-site request from a page of %.*s; if this is a name of this server, add it to "
            "hosts in the configuration",
            (int)(site->origin.n < 100 ? site->origin.n : 100), site->origin.p);
    return false;
}

// Whether only a local resolver knows the name.
static bool is_private_host(struct str name)
{
    static const char *const ends[] = {".local",     ".internal", ".lan",           ".localdomain",
                                       ".home.arpa", ".svc",      ".cluster.local", ".test"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (has_domain_suffix(name, str_from(ends[i])))
            return true;
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    return is_same_host(name, own);
}

bool http_trusts_host(struct str host, bool loopback, const char *listens_on,
                      const struct str *hosts, size_t n_hosts, struct err *e)
{
    struct str name = without_port(host);
    if (name.n == 0 || name.p[0] == '[' || is_ipv4_address(name) ||
        is_same_host(name, "localhost") || has_domain_suffix(name, STR(".localhost")) ||
        is_same_host(name, listens_on) || str_find(name, STR("."), 0) == SIZE_MAX ||
        is_listed_host(name, hosts, n_hosts) || (!loopback && is_private_host(name)))
        return true;
    err_set(e,
            "unknown Host %.*s; if this is a name of this server, add it to the configuration: "
            "hosts: [%.*s]",
            (int)(name.n < 100 ? name.n : 100), name.p, (int)(name.n < 100 ? name.n : 100), name.p);
    return false;
}

bool http_trusts_origin(const struct http_request *q, bool check_host, const char *host,
                        struct err *e)
{
    if (!is_linked(http_header(q, STR("Sec-Fetch-Site")), http_header(q, STR("Sec-Fetch-Mode")),
                   false)) {
        err_set(e, "cross-site request: pages of other sites may link to this page, but not embed "
                   "or fetch it");
        return false;
    }
    struct str name = without_port(q->host);
    if (!check_host || name.n == 0 || name.p[0] == '[')
        return true;
    if (is_same_host(name, "localhost") || is_same_host(name, host) || is_ipv4_address(name))
        return true;
    err_set(e,
            "invalid Host %.*s; this server accepts requests from this machine only: use localhost "
            "or an IP address",
            (int)(name.n < 100 ? name.n : 100), name.p);
    return false;
}
