#include "net/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/curl_library.h"

#define lib lib_curl

struct transfer {
    struct net_fetch *fetch;
    CURL *curl;
    size_t cap, limit;
    size_t *received;
    char content_type[64];
    char from_pprof[2]; // the endpoint says that its error text is for people
    char why[CURL_ERROR_SIZE];
};

static size_t take_body(char *data, size_t size, size_t count, void *context)
{
    struct transfer *t = context;
    struct net_fetch *f = t->fetch;
    size_t n = size * count;
    if (n > t->limit - f->n) {
        snprintf(t->why, sizeof t->why, "the answer is larger than %zu MiB", t->limit >> 20);
        return 0;
    }
    if (t->fetch->to_file) {
        for (size_t done = 0; done < n;) {
            ssize_t wrote = write(f->fd, data + done, n - done);
            if (wrote < 0) {
                snprintf(t->why, sizeof t->why, "the file cannot be written: %s", strerror(errno));
                return 0;
            }
            done += (size_t)wrote;
        }
        f->n += n;
        *t->received += n;
        return n;
    }
    if (f->n + n > t->cap) {
        size_t cap = t->cap ? t->cap : 65536;
        while (cap < f->n + n)
            cap *= 2;
        uint8_t *p = realloc(f->data, cap);
        if (!p)
            return 0;
        f->data = p;
        t->cap = cap;
    }
    memcpy(f->data + f->n, data, n);
    f->n += n;
    *t->received += n;
    return n;
}

static size_t take_header(char *line, size_t size, size_t count, void *context)
{
    struct transfer *t = context;
    size_t n = size * count;
    if (n > 11 && strncasecmp(line, "X-Go-Pprof:", 11) == 0)
        t->from_pprof[0] = '1';
    if (n > 13 && strncasecmp(line, "Content-Type:", 13) == 0)
        snprintf(t->content_type, sizeof t->content_type, "%.*s", (int)(n - 13), line + 13);
    return n;
}

static void begin(struct transfer *t, CURLM *multi, const struct net_tls *tls)
{
    t->curl = lib.easy_init();
    if (!t->curl) {
        err_set(&t->fetch->error, "http fetch: out of memory");
        return;
    }
    const char *url = t->fetch->url, *insecure = "https+insecure://";
    char *plain = NULL;
    if (strncmp(url, insecure, strlen(insecure)) == 0) {
        if (asprintf(&plain, "https://%s", url + strlen(insecure)) < 0)
            plain = NULL;
        lib.easy_setopt(t->curl, CURLOPT_SSL_VERIFYPEER, 0L);
        lib.easy_setopt(t->curl, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    lib.easy_setopt(t->curl, CURLOPT_URL, plain ? plain : url);
    free(plain);
    lib.easy_setopt(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    lib.easy_setopt(t->curl, CURLOPT_FOLLOWLOCATION, 1L);
    lib.easy_setopt(t->curl, CURLOPT_MAXREDIRS, 10L);
    lib.easy_setopt(t->curl, CURLOPT_TIMEOUT, (long)t->fetch->timeout);
    if (t->fetch->to_file)
        lib.easy_setopt(t->curl, CURLOPT_CONNECTTIMEOUT, 15L);
    lib.easy_setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
    lib.easy_setopt(t->curl, CURLOPT_USERAGENT, "kiln/" KILN_VERSION);
    lib.easy_setopt(t->curl, CURLOPT_ERRORBUFFER, t->why);
    lib.easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, take_body);
    lib.easy_setopt(t->curl, CURLOPT_WRITEDATA, t);
    lib.easy_setopt(t->curl, CURLOPT_HEADERFUNCTION, take_header);
    lib.easy_setopt(t->curl, CURLOPT_HEADERDATA, t);
    lib.easy_setopt(t->curl, CURLOPT_PRIVATE, t);
    if (tls && tls->cert && *tls->cert)
        lib.easy_setopt(t->curl, CURLOPT_SSLCERT, tls->cert);
    if (tls && tls->key && *tls->key)
        lib.easy_setopt(t->curl, CURLOPT_SSLKEY, tls->key);
    if (tls && tls->ca && *tls->ca)
        lib.easy_setopt(t->curl, CURLOPT_CAINFO, tls->ca);
    lib.multi_add_handle(multi, t->curl);
}

static void finish(struct transfer *t, CURLcode result)
{
    struct net_fetch *f = t->fetch;
    long status = 0;
    lib.easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    if (result != CURLE_OK)
        err_set(&f->error, "http fetch: %s", *t->why ? t->why : lib.easy_strerror(result));
    else if (status != 200 && f->data && t->from_pprof[0] && strstr(t->content_type, "text/plain"))
        err_set(&f->error, "server response: %ld - %.*s", status, (int)(f->n < 300 ? f->n : 300),
                (const char *)f->data);
    else if (status != 200)
        err_set(&f->error, "server response: %ld", status);
}

void net_fetch_all(struct net_fetch *fetches, size_t n, const struct net_tls *tls, size_t limit,
                   void (*progress)(void *context, size_t bytes), void *context)
{
    struct err missing;
    if (curl_library_load(&missing)) {
        for (size_t i = 0; i < n; i++) {
            fetches[i].data = NULL;
            fetches[i].error = missing;
        }
        return;
    }
    CURLM *multi = lib.multi_init();
    struct transfer *transfers = calloc(n, sizeof *transfers);
    size_t received = 0;
    for (size_t i = 0; i < n; i++) {
        fetches[i].data = NULL;
        fetches[i].n = 0;
        fetches[i].error.message[0] = '\0';
        if (!multi || !transfers) {
            err_set(&fetches[i].error, "http fetch: out of memory");
            continue;
        }
        transfers[i] =
            (struct transfer){.fetch = &fetches[i], .limit = limit, .received = &received};
        begin(&transfers[i], multi, tls);
    }
    for (int running = multi && transfers ? 1 : 0; running;) {
        lib.multi_perform(multi, &running);
        CURLMsg *message;
        int left;
        while ((message = lib.multi_info_read(multi, &left))) {
            struct transfer *t;
            if (message->msg != CURLMSG_DONE)
                continue;
            lib.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&t);
            finish(t, message->data.result);
        }
        if (progress)
            progress(context, received);
        if (running)
            lib.multi_poll(multi, NULL, 0, 100, NULL);
    }
    for (size_t i = 0; transfers && multi && i < n; i++) {
        if (transfers[i].curl) {
            lib.multi_remove_handle(multi, transfers[i].curl);
            lib.easy_cleanup(transfers[i].curl);
        }
    }
    free(transfers);
    if (multi)
        lib.multi_cleanup(multi);
}
