// Authentication.
#include <strings.h>

#include "agent/endpoints/endpoint.h"

// Constant-time comparison: takes as long for a wrong token as for the right one.
static bool secrets_equal(struct str given, struct str secret)
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

// Decodes USER:PASSWORD and returns the password; empty if there is none.
static struct str decode_password(struct str encoded, char *text, size_t size)
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
        return secrets_equal(str_trim(str_from_to(given, 7, given.n)), secret);
    // pprof uses http://:TOKEN@HOST, and browsers ask for a password.
    if (given.n > 6 && strncasecmp(given.p, "Basic ", 6) == 0)
        return secrets_equal(
            decode_password(str_trim(str_from_to(given, 6, given.n)), text, sizeof text), secret);
    return false;
}
