#include "net/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net/curl_library.h"

#define lib lib_curl

struct exchange {
    struct exchange *next, **link;
    CURL *curl;
    struct curl_slist *headers;
    struct net_answer answer;
    size_t cap, limit;
    net_done_fn *done;
    void *context;
    char why[CURL_ERROR_SIZE];
};

struct net_client {
    CURLM *multi;
    struct exchange *exchanges;
    int running;
};

struct net_client *net_client_new(struct err *e)
{
    if (curl_library_load(e))
        return NULL;
    struct net_client *c = calloc(1, sizeof *c);
    if (c)
        c->multi = lib.multi_init();
    if (!c || !c->multi) {
        free(c);
        err_set(e, "out of memory");
        return NULL;
    }
    return c;
}

static void exchange_free(struct net_client *c, struct exchange *x)
{
    if (x->link) {
        *x->link = x->next;
        if (x->next)
            x->next->link = x->link;
        c->running--;
    }
    if (x->curl) {
        lib.multi_remove_handle(c->multi, x->curl);
        lib.easy_cleanup(x->curl);
    }
    lib.slist_free_all(x->headers);
    free(x->answer.data);
    free(x);
}

void net_client_free(struct net_client *c)
{
    if (!c)
        return;
    while (c->exchanges)
        exchange_free(c, c->exchanges);
    lib.multi_cleanup(c->multi);
    free(c);
}

static size_t take(char *data, size_t size, size_t count, void *context)
{
    struct exchange *x = context;
    struct net_answer *a = &x->answer;
    size_t n = size * count;
    if (n > x->limit - a->n) {
        snprintf(x->why, sizeof x->why, "the answer is larger than %zu MiB", x->limit >> 20);
        return 0;
    }
    if (a->n + n > x->cap) {
        size_t cap = x->cap ? x->cap : 16384;
        while (cap < a->n + n)
            cap *= 2;
        uint8_t *p = realloc(a->data, cap);
        if (!p)
            return 0;
        a->data = p;
        x->cap = cap;
    }
    memcpy(a->data + a->n, data, n);
    a->n += n;
    return n;
}

static void set(struct exchange *x, CURLoption option, const char *text)
{
    if (text && *text)
        lib.easy_setopt(x->curl, option, text);
}

static void set_options(struct exchange *x, const struct net_request *r)
{
    set(x, CURLOPT_URL, r->url);
    lib.easy_setopt(x->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    lib.easy_setopt(x->curl, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms);
    lib.easy_setopt(x->curl, CURLOPT_NOSIGNAL, 1L);
    lib.easy_setopt(x->curl, CURLOPT_USERAGENT, "kiln/" KILN_VERSION);
    lib.easy_setopt(x->curl, CURLOPT_ERRORBUFFER, x->why);
    lib.easy_setopt(x->curl, CURLOPT_WRITEFUNCTION, take);
    lib.easy_setopt(x->curl, CURLOPT_WRITEDATA, x);
    lib.easy_setopt(x->curl, CURLOPT_PRIVATE, x);
    if (r->body) {
        lib.easy_setopt(x->curl, CURLOPT_POST, 1L);
        lib.easy_setopt(x->curl, CURLOPT_POSTFIELDS, r->body);
        lib.easy_setopt(x->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->n_body);
    }
    set(x, CURLOPT_USERNAME, r->user);
    set(x, CURLOPT_PASSWORD, r->password);
    set(x, CURLOPT_CAINFO, r->ca_file);
    set(x, CURLOPT_SSLCERT, r->cert_file);
    set(x, CURLOPT_SSLKEY, r->key_file);
    if (r->insecure) {
        lib.easy_setopt(x->curl, CURLOPT_SSL_VERIFYPEER, 0L);
        lib.easy_setopt(x->curl, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    for (size_t i = 0; r->headers && r->headers[i]; i++)
        x->headers = lib.slist_append(x->headers, r->headers[i]);
    lib.easy_setopt(x->curl, CURLOPT_HTTPHEADER, x->headers);
}

int net_client_begin(struct net_client *c, const struct net_request *r, net_done_fn *done,
                     void *context, struct err *e)
{
    struct exchange *x = calloc(1, sizeof *x);
    if (!x)
        return err_set(e, "out of memory");
    x->limit = r->limit;
    x->done = done;
    x->context = context;
    x->curl = lib.easy_init();
    if (!x->curl) {
        exchange_free(c, x);
        return err_set(e, "out of memory");
    }
    set_options(x, r);
    x->next = c->exchanges;
    x->link = &c->exchanges;
    if (x->next)
        x->next->link = &x->next;
    c->exchanges = x;
    c->running++;
    lib.multi_add_handle(c->multi, x->curl);
    return 0;
}

static void finish(struct exchange *x, CURLcode result)
{
    long status = 0;
    lib.easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    lib.easy_getinfo(x->curl, CURLINFO_TOTAL_TIME, &x->answer.seconds);
    x->answer.status = result == CURLE_OK ? (int)status : 0;
    if (result != CURLE_OK)
        err_set(&x->answer.error, "%s", *x->why ? x->why : lib.easy_strerror(result));
}

int net_client_wait(struct net_client *c, int ms)
{
    int running, left;
    lib.multi_perform(c->multi, &running);
    // What has ended just now would not wake it.
    if (ms > 0 && running == c->running) {
        lib.multi_poll(c->multi, NULL, 0, ms, NULL);
        lib.multi_perform(c->multi, &running);
    }
    for (CURLMsg *m; (m = lib.multi_info_read(c->multi, &left));) {
        struct exchange *x;
        if (m->msg != CURLMSG_DONE)
            continue;
        lib.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x);
        finish(x, m->data.result);
        x->done(x->context, &x->answer);
        exchange_free(c, x);
    }
    return c->running;
}

void net_client_wake(struct net_client *c)
{
    lib.multi_wakeup(c->multi);
}

static void keep(void *context, const struct net_answer *answer)
{
    struct net_answer *to = context;
    *to = *answer;
    to->data = NULL;
    if (answer->n && !(to->data = malloc(answer->n))) {
        to->status = 0;
        err_set(&to->error, "out of memory");
    } else if (answer->n) {
        memcpy(to->data, answer->data, answer->n);
    }
}

int net_client_do(const struct net_request *r, struct net_answer *answer)
{
    *answer = (struct net_answer){0};
    struct net_client *c = net_client_new(&answer->error);
    if (!c)
        return -1;
    if (net_client_begin(c, r, keep, answer, &answer->error) == 0)
        while (net_client_wait(c, 1000) > 0)
            ;
    net_client_free(c);
    return answer->status ? 0 : -1;
}
