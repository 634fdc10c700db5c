#include "net/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/retry.h"
#include "base/str.h"
#include "net/curl_library.h"

#define lib lib_curl

enum { HEAD_MAX = 64 << 10, FIRST_BUFFER = 16 << 10 };

struct exchange {
    struct exchange *next, **link;
    struct net_client *client;
    CURL *curl;
    struct curl_slist *headers;
    struct net_answer answer;
    size_t cap, limit, head;
    struct budget *budget;
    net_done_fn *done;
    void *context;
    bool to_file, evicted, head_decides;
    net_part_fn *part;
    int fd;
    char why[CURL_ERROR_SIZE]; // libcurl's error message
    char reason[200];          // kiln's error message, which takes precedence
};

struct net_client {
    CURLM *multi;
    struct exchange *exchanges;
    int running;
    size_t held, limit; // bytes of the answers in progress
    size_t received;
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

void net_client_limit(struct net_client *c, size_t bytes)
{
    c->limit = bytes;
}

static void drop_data(struct exchange *x)
{
    free(x->answer.data);
    x->answer.data = NULL;
    x->answer.n = 0;
    x->client->held -= x->cap;
    if (x->budget)
        budget_release(&x->budget->account, x->cap);
    x->cap = 0;
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
    drop_data(x);
    free(x);
}

void net_client_free(struct net_client *c)
{
    if (!c)
        return;
    while (c->exchanges) {
        // Do not wait for a pending name lookup.
        lib.easy_setopt(c->exchanges->curl, CURLOPT_QUICK_EXIT, 1L);
        exchange_free(c, c->exchanges);
    }
    lib.multi_cleanup(c->multi);
    free(c);
}

// --- receiving answers ---

static void client_answer_too_large(struct exchange *x)
{
    if (x->limit >> 20)
        snprintf(x->reason, sizeof x->reason, "the response is larger than %zu MiB",
                 x->limit >> 20);
    else
        snprintf(x->reason, sizeof x->reason, "the response is larger than %zu bytes", x->limit);
}

static void client_evict(struct exchange *x)
{
    snprintf(x->reason, sizeof x->reason,
             "the responses in progress need more than %zu MiB; the largest was ended",
             x->client->limit >> 20);
    x->evicted = true;
    drop_data(x);
}

// Whether x may hold size bytes. Evicts larger answers to make room.
static bool client_make_room(struct exchange *x, size_t size)
{
    struct net_client *c = x->client;
    while (c->limit && c->held - x->cap + size > c->limit) {
        struct exchange *largest = NULL;
        for (struct exchange *at = c->exchanges; at; at = at->next)
            if (at != x && at->cap >= size && (!largest || at->cap > largest->cap))
                largest = at;
        client_evict(largest ? largest : x);
        if (!largest)
            return false;
    }
    return true;
}

static bool grow_data(struct exchange *x, size_t cap)
{
    size_t more = cap - x->cap;
    if (x->budget && budget_take(x->budget, more)) {
        snprintf(x->reason, sizeof x->reason, "no memory for the response");
        return false;
    }
    uint8_t *p = client_make_room(x, cap) ? realloc(x->answer.data, cap) : NULL;
    if (!p) {
        if (x->budget)
            budget_release(&x->budget->account, more);
        return false;
    }
    x->answer.data = p;
    x->client->held += more;
    x->cap = cap;
    return true;
}

static size_t client_write_file(struct exchange *x, const char *data, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t wrote = write(x->fd, data + done, n - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0) {
            snprintf(x->reason, sizeof x->reason, "cannot write the file: %s", strerror(errno));
            return 0;
        }
        done += (size_t)wrote;
    }
    x->answer.n += n;
    return n;
}

static bool is_answer_good(const struct exchange *x)
{
    long status = 0;
    lib.easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    return status / 100 == 2;
}

static bool is_decided_by_head(const struct exchange *x)
{
    return x->head_decides && is_answer_good(x);
}

static size_t client_on_body(char *data, size_t size, size_t count, void *context)
{
    struct exchange *x = context;
    struct net_answer *a = &x->answer;
    size_t n = size * count;
    if (x->evicted || is_decided_by_head(x))
        return 0;
    if (x->part && is_answer_good(x)) {
        x->client->received += n;
        return x->part(x->context, data, n) ? n : 0;
    }
    if (n > x->limit - a->n) {
        client_answer_too_large(x);
        return 0;
    }
    x->client->received += n;
    if (x->to_file)
        return client_write_file(x, data, n);
    if (a->n + n > x->cap) {
        size_t cap = x->cap ? x->cap : FIRST_BUFFER;
        while (cap < a->n + n)
            cap *= 2;
        if (cap > x->limit)
            cap = x->limit;
        if (!grow_data(x, cap))
            return 0;
    }
    if (n)
        memcpy(a->data + a->n, data, n);
    a->n += n;
    return n;
}

static bool is_header(struct str line, struct str name, struct str *value)
{
    if (line.n <= name.n || line.p[name.n] != ':' || strncasecmp(line.p, name.p, name.n) != 0)
        return false;
    *value = str_trim(str_from_to(line, name.n + 1, line.n));
    return true;
}

static size_t client_on_header(char *data, size_t size, size_t count, void *context)
{
    struct exchange *x = context;
    struct net_answer *a = &x->answer;
    struct str line = {data, size * count}, value;
    x->head += line.n;
    if (x->head > HEAD_MAX) {
        snprintf(x->reason, sizeof x->reason, "the headers of the response are larger than %d KiB",
                 HEAD_MAX >> 10);
        return 0;
    }
    if (str_starts(line, STR("HTTP/"))) { // also after a redirect or 100 Continue
        a->retry_after = -1;
        a->content_type[0] = '\0';
        a->from_pprof = false;
    } else if (is_header(line, STR("Retry-After"), &value)) {
        a->retry_after = retry_after_parse(value, (int64_t)time(NULL));
    } else if (is_header(line, STR("Content-Type"), &value)) {
        snprintf(a->content_type, sizeof a->content_type, "%.*s",
                 (int)(value.n < sizeof a->content_type ? value.n : sizeof a->content_type),
                 value.p);
    } else if (is_header(line, STR("X-Go-Pprof"), &value)) {
        a->from_pprof = true;
    }
    return line.n;
}

// --- requests ---

static void client_set_text(struct exchange *x, CURLoption option, const char *text)
{
    if (text && *text)
        lib.easy_setopt(x->curl, option, text);
}

static void set_options(struct exchange *x, const struct net_request *r)
{
    client_set_text(x, CURLOPT_URL, r->url);
    lib.easy_setopt(x->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    lib.easy_setopt(x->curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    if (r->redirects) {
        lib.easy_setopt(x->curl, CURLOPT_FOLLOWLOCATION, 1L);
        lib.easy_setopt(x->curl, CURLOPT_MAXREDIRS, (long)r->redirects);
    }
    lib.easy_setopt(x->curl, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms);
    if (r->connect_timeout_ms)
        lib.easy_setopt(x->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)r->connect_timeout_ms);
    lib.easy_setopt(x->curl, CURLOPT_FRESH_CONNECT, (long)r->once);
    lib.easy_setopt(x->curl, CURLOPT_FORBID_REUSE, (long)r->once);
    lib.easy_setopt(x->curl, CURLOPT_NOSIGNAL, 1L);
    lib.easy_setopt(x->curl, CURLOPT_USERAGENT, "kiln/" KILN_VERSION);
    lib.easy_setopt(x->curl, CURLOPT_ERRORBUFFER, x->why);
    if (!r->part)
        lib.easy_setopt(x->curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)r->limit);
    lib.easy_setopt(x->curl, CURLOPT_WRITEFUNCTION, client_on_body);
    lib.easy_setopt(x->curl, CURLOPT_WRITEDATA, x);
    lib.easy_setopt(x->curl, CURLOPT_HEADERFUNCTION, client_on_header);
    lib.easy_setopt(x->curl, CURLOPT_HEADERDATA, x);
    lib.easy_setopt(x->curl, CURLOPT_PRIVATE, x);
    if (r->body) {
        lib.easy_setopt(x->curl, CURLOPT_POST, 1L);
        lib.easy_setopt(x->curl, CURLOPT_POSTFIELDS, r->body);
        lib.easy_setopt(x->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->n_body);
    }
    client_set_text(x, CURLOPT_USERNAME, r->user);
    client_set_text(x, CURLOPT_PASSWORD, r->password);
    client_set_text(x, CURLOPT_CAINFO, r->ca_file);
    client_set_text(x, CURLOPT_SSLCERT, r->cert_file);
    client_set_text(x, CURLOPT_SSLKEY, r->key_file);
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
    x->client = c;
    x->limit = r->limit;
    x->budget = r->budget;
    x->to_file = r->to_file;
    x->fd = r->fd;
    x->head_decides = r->head_decides;
    x->part = r->part;
    x->done = done;
    x->context = context;
    x->answer.retry_after = -1;
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

static void exchange_finish(struct exchange *x, CURLcode result)
{
    long status = 0;
    lib.easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    lib.easy_getinfo(x->curl, CURLINFO_TOTAL_TIME, &x->answer.seconds);
    bool good = (result == CURLE_OK || is_decided_by_head(x)) && !x->evicted;
    x->answer.status = good ? (int)status : 0;
    if (result == CURLE_FILESIZE_EXCEEDED)
        client_answer_too_large(x);
    if (!good)
        err_set(&x->answer.error, "%s",
                *x->reason ? x->reason
                : *x->why  ? x->why
                           : lib.easy_strerror(result));
}

void net_client_cancel(struct net_client *c, const void *context)
{
    for (struct exchange *x = c->exchanges, *next; x; x = next) {
        next = x->next;
        if (x->context == context)
            exchange_free(c, x);
    }
}

int net_client_wait(struct net_client *c, int ms)
{
    int running, left;
    lib.multi_perform(c->multi, &running);
    // multi_poll does not return for transfers that have just finished.
    if (ms > 0 && running == c->running) {
        lib.multi_poll(c->multi, NULL, 0, ms, NULL);
        lib.multi_perform(c->multi, &running);
    }
    for (CURLMsg *m; (m = lib.multi_info_read(c->multi, &left));) {
        struct exchange *x;
        if (m->msg != CURLMSG_DONE)
            continue;
        lib.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x);
        exchange_finish(x, m->data.result);
        x->done(x->context, &x->answer);
        exchange_free(c, x);
    }
    return c->running;
}

void net_client_wake(struct net_client *c)
{
    lib.multi_wakeup(c->multi);
}

size_t net_client_received(const struct net_client *c)
{
    return c->received;
}

static void keep_answer(void *context, struct net_answer *answer)
{
    *(struct net_answer *)context = *answer;
    answer->data = NULL;
}

int net_client_do(const struct net_request *r, struct net_answer *answer)
{
    *answer = (struct net_answer){0};
    struct net_client *c = net_client_new(&answer->error);
    if (!c)
        return -1;
    if (net_client_begin(c, r, keep_answer, answer, &answer->error) == 0)
        while (net_client_wait(c, 1000) > 0)
            ;
    net_client_free(c);
    return answer->status ? 0 : -1;
}
