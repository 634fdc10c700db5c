// Who may ask.
#include <arpa/inet.h>
#include <strings.h>

#include "agent/endpoint.h"

// Takes as long for a wrong token as for the right one of the same length.
static bool same_secret(struct str given, struct str secret)
{
    unsigned char different = given.n != secret.n;
    for (size_t i = 0; i < given.n; i++)
        different |= (unsigned char)(given.p[i] ^ secret.p[i % secret.n]);
    return !different;
}

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

// What follows the colon of USER:PASSWORD; n is 0 if there is none.
static struct str password(struct str encoded, char *text, size_t size)
{
    size_t n = 0;
    uint32_t bits = 0;
    int count = 0;
    while (encoded.n && encoded.p[encoded.n - 1] == '=')
        encoded.n--;
    for (size_t i = 0; i < encoded.n; i++) {
        int digit = base64_digit(encoded.p[i]);
        if (digit < 0 || n == size)
            return (struct str){"", 0};
        bits = bits << 6 | (uint32_t)digit;
        count += 6;
        if (count >= 8)
            text[n++] = (char)(bits >> (count -= 8));
    }
    char *colon = memchr(text, ':', n);
    if (!colon)
        return (struct str){"", 0};
    return (struct str){colon + 1, n - (size_t)(colon + 1 - text)};
}

bool endpoint_authorized(const struct http_request *q, const char *token)
{
    char text[1024];
    struct str given = http_header(q, STR("Authorization")), secret = str_from(token);
    if (given.n > 7 && strncasecmp(given.p, "Bearer ", 7) == 0)
        return same_secret(str_trim(str_from_to(given, 7, given.n)), secret);
    // pprof takes http://:TOKEN@HOST, and a browser asks for a password.
    if (given.n > 6 && strncasecmp(given.p, "Basic ", 6) == 0)
        return same_secret(password(str_trim(str_from_to(given, 6, given.n)), text, sizeof text),
                           secret);
    return false;
}

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

// A web page can make its own name resolve to 127.0.0.1 and then read from there what it likes
// (DNS rebinding), and it can embed our addresses. The first shows in Host, the second in what
// browsers tell of a request's origin; a link that somebody follows is fine.
bool endpoint_trusts_origin(const struct http_request *q, bool check_host, const char *host,
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
