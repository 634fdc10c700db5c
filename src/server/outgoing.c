#include "server/outgoing.h"

#include <errno.h>
#include <stdio.h>

int outgoing_read_secret(const char *file, char *text, size_t size, struct err *e)
{
    FILE *f = fopen(file, "r");
    if (!f)
        return err_set(e, "%s: %s", file, strerror(errno));
    size_t n = fread(text, 1, size - 1, f);
    fclose(f);
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' '))
        n--;
    text[n] = 0;
    return 0;
}

int outgoing_authorize(struct outgoing *r, const struct request_auth *a, struct err *e)
{
    char secret[4096];
    r->net.headers = r->headers;
    r->net.insecure = a->insecure;
    r->net.ca_file = a->ca_file.p;
    r->net.cert_file = a->cert_file.p;
    r->net.key_file = a->key_file.p;
    if (a->credentials.n || a->credentials_file.n) {
        size_t n = 0;
        if (a->credentials_file.n &&
            outgoing_read_secret(a->credentials_file.p, secret, sizeof secret, e))
            return -1;
        snprintf(r->header, sizeof r->header, "Authorization: %.100s %.4000s", a->type.p,
                 a->credentials_file.n ? secret : a->credentials.p);
        while (r->headers[n])
            n++;
        r->headers[n] = r->header;
    }
    if (a->user.n) {
        r->net.user = a->user.p;
        r->net.password = a->password.p;
        if (a->password_file.n) {
            if (outgoing_read_secret(a->password_file.p, r->password, sizeof r->password, e))
                return -1;
            r->net.password = r->password;
        }
    }
    return 0;
}

void outgoing_explain(const struct net_answer *answer, const char *who, char *to, size_t size)
{
    char text[151];
    if (!answer->status) {
        snprintf(to, size, "%.250s", answer->error.message);
        return;
    }
    size_t n = answer->n < sizeof text - 1 ? answer->n : sizeof text - 1;
    for (size_t i = 0; i < n; i++)
        text[i] = answer->data[i] >= 0x20 && answer->data[i] < 0x7f ? (char)answer->data[i] : ' ';
    text[n] = 0;
    snprintf(to, size, "%s answers %d: %s%s", who, answer->status,
             answer->status / 100 == 3 ? "redirects are not followed; " : "", text);
}

struct str outgoing_origin(struct str url)
{
    size_t end = str_find(url, STR("//"), 0);
    end = end == SIZE_MAX ? 0 : end + 2;
    while (end < url.n && url.p[end] != '/' && url.p[end] != '?')
        end++;
    return str_from_to(url, 0, end);
}
