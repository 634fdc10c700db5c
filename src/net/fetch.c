#include "net/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "net/client.h"

enum { REDIRECTS = 10, CONNECT_MS = 15000 };

static void fetch_done(void *context, struct net_answer *answer)
{
    struct net_fetch *f = context;
    f->data = answer->data;
    f->n = answer->n;
    answer->data = NULL;
    if (!answer->status)
        err_set(&f->error, "http fetch: %s", answer->error.message);
    else if (answer->status != 200 && f->data && answer->from_pprof &&
             strstr(answer->content_type, "text/plain"))
        err_set(&f->error, "server response: %d - %.*s", answer->status,
                (int)(f->n < 300 ? f->n : 300), (const char *)f->data);
    else if (answer->status != 200)
        err_set(&f->error, "server response: %d", answer->status);
}

static void fetch_begin(struct net_client *client, struct net_fetch *f, const struct net_tls *tls,
                        size_t limit)
{
    struct net_request r = {
        .url = f->url,
        .timeout_ms = (int64_t)f->timeout * 1000,
        .connect_timeout_ms = f->to_file ? CONNECT_MS : 0,
        .limit = limit,
        .redirects = REDIRECTS,
        .to_file = f->to_file,
        .fd = f->fd,
    };
    char *plain = NULL;
    struct err e = {""};
    const struct str insecure = STR("https+insecure://");
    if (str_starts(str_from(f->url), insecure)) {
        r.insecure = true;
        if (asprintf(&plain, "https://%s", f->url + insecure.n) < 0)
            plain = NULL;
        r.url = plain ? plain : f->url;
    }
    if (tls) {
        r.cert_file = tls->cert;
        r.key_file = tls->key;
        r.ca_file = tls->ca;
    }
    if (net_client_begin(client, &r, fetch_done, f, &e))
        err_set(&f->error, "http fetch: %s", e.message);
    free(plain);
}

void net_fetch_all(struct net_fetch *fetches, size_t n, const struct net_tls *tls, size_t limit,
                   void (*progress)(void *context, size_t bytes), void *context)
{
    struct err missing;
    struct net_client *client = net_client_new(&missing);
    for (size_t i = 0; i < n; i++) {
        fetches[i].data = NULL;
        fetches[i].n = 0;
        fetches[i].error.message[0] = '\0';
        if (client)
            fetch_begin(client, &fetches[i], tls, limit);
        else
            fetches[i].error = missing;
    }
    for (int running = client && n; running;) {
        running = net_client_wait(client, 100);
        if (progress)
            progress(context, net_client_received(client));
    }
    net_client_free(client);
}
