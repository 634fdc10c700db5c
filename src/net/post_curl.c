// https with libcurl. libkiln neither links it nor needs its header: the numbers below are part of
// its stable binary interface.
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/post.h"
#include "process/process.h"

enum {
    GLOBAL_DEFAULT = 3,
    OPT_NOPROGRESS = 43,
    OPT_NOSIGNAL = 99,
    OPT_TIMEOUT_MS = 155,
    OPT_WRITEDATA = 10001,
    OPT_URL = 10002,
    OPT_ERRORBUFFER = 10010,
    OPT_POSTFIELDS = 10015,
    OPT_HTTPHEADER = 10023,
    OPT_HEADERDATA = 10029,
    OPT_XFERINFODATA = 10057,
    OPT_CAINFO = 10065,
    OPT_WRITEFUNCTION = 20011,
    OPT_HEADERFUNCTION = 20079,
    OPT_XFERINFOFUNCTION = 20219,
    OPT_POSTFIELDSIZE_LARGE = 30120,
    INFO_RESPONSE_CODE = 0x200002,
    ERROR_SIZE = 256,
    ABORTED = 42,
};

static struct {
    int (*global_init)(long flags);
    void *(*easy_init)(void);
    int (*easy_setopt)(void *curl, int option, ...);
    int (*easy_perform)(void *curl);
    int (*easy_getinfo)(void *curl, int info, ...);
    void (*easy_cleanup)(void *curl);
    const char *(*easy_strerror)(int code);
    void *(*slist_append)(void *list, const char *text);
    void (*slist_free_all)(void *list);
} lib;

#define LOAD(name)                                                        \
    if (!(lib.name = (__typeof__(lib.name))dlsym(handle, "curl_" #name))) \
    return err_set(e, "libcurl has no curl_" #name)

int post_curl_load(struct err *e)
{
    if (lib.slist_free_all)
        return 0;
    void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        handle = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return err_set(e, "https needs libcurl, which is missing; install it (apt-get install "
                          "libcurl4), or push over http to a proxy on this machine");
    LOAD(global_init);
    LOAD(easy_init);
    LOAD(easy_setopt);
    LOAD(easy_perform);
    LOAD(easy_getinfo);
    LOAD(easy_cleanup);
    LOAD(easy_strerror);
    LOAD(slist_append);
    if (lib.global_init(GLOBAL_DEFAULT))
        return err_set(e, "libcurl cannot be initialized");
    LOAD(slist_free_all);
    return 0;
}

struct transfer {
    const struct post *post;
    uint64_t deadline;
    int64_t retry_after;
    char body[4096];
    size_t n;
};

static size_t post_on_body(const char *data, size_t size, size_t count, void *context)
{
    struct transfer *t = context;
    size_t n = size * count, room = sizeof t->body - t->n;
    memcpy(t->body + t->n, data, n < room ? n : room);
    t->n += n < room ? n : room;
    return n;
}

static size_t post_on_header(const char *data, size_t size, size_t count, void *context)
{
    struct transfer *t = context;
    if (t->retry_after < 0)
        t->retry_after = post_retry_after((struct str){data, size * count});
    return size * count;
}

static int post_is_time_up(void *context, int64_t a, int64_t b, int64_t c, int64_t d)
{
    struct transfer *t = context;
    return post_time_left(t->post, t->deadline) == 0;
}

static void *header_list(const char *headers)
{
    void *list = lib.slist_append(NULL, "Expect:");
    struct str rest = str_from(headers), line;
    while (str_next_line(&rest, &line)) {
        char text[2048];
        snprintf(text, sizeof text, "%.*s", (int)line.n, line.p);
        if (line.n)
            list = lib.slist_append(list, text);
    }
    return list;
}

int post_curl(const struct post *post, uint64_t deadline, struct post_answer *answer, struct err *e)
{
    if (post_curl_load(e))
        return -1;
    void *curl = lib.easy_init();
    struct transfer t = {.post = post, .deadline = deadline, .retry_after = -1};
    char url[POST_HOST_MAX + 2 * POST_PATH_MAX], why[ERROR_SIZE] = "";
    const char *ca = process_getenv("KILN_PUSH_CA");
    bool v6 = strchr(post->url->host, ':');
    if (!curl)
        return err_set(e, "no memory for libcurl");
    snprintf(url, sizeof url, "https://%s%s%s:%s%s%s", v6 ? "[" : "", post->url->host,
             v6 ? "]" : "", post->url->port, post->url->path, post->path);
    void *headers = header_list(post->headers);
    lib.easy_setopt(curl, OPT_URL, url);
    lib.easy_setopt(curl, OPT_NOSIGNAL, 1L);
    lib.easy_setopt(curl, OPT_TIMEOUT_MS, (long)(post->timeout_ns / 1000000));
    lib.easy_setopt(curl, OPT_HTTPHEADER, headers);
    lib.easy_setopt(curl, OPT_POSTFIELDS, post->body.p);
    lib.easy_setopt(curl, OPT_POSTFIELDSIZE_LARGE, (int64_t)post->body.n);
    lib.easy_setopt(curl, OPT_ERRORBUFFER, why);
    lib.easy_setopt(curl, OPT_WRITEFUNCTION, post_on_body);
    lib.easy_setopt(curl, OPT_WRITEDATA, &t);
    lib.easy_setopt(curl, OPT_HEADERFUNCTION, post_on_header);
    lib.easy_setopt(curl, OPT_HEADERDATA, &t);
    lib.easy_setopt(curl, OPT_NOPROGRESS, 0L);
    lib.easy_setopt(curl, OPT_XFERINFOFUNCTION, post_is_time_up);
    lib.easy_setopt(curl, OPT_XFERINFODATA, &t);
    if (ca && *ca)
        lib.easy_setopt(curl, OPT_CAINFO, ca);
    int result = lib.easy_perform(curl);
    long status = 0;
    lib.easy_getinfo(curl, INFO_RESPONSE_CODE, &status);
    lib.slist_free_all(headers);
    lib.easy_cleanup(curl);
    if (result == ABORTED)
        return err_set(e, "timeout: no response");
    if (result)
        return err_set(e, "%s", *why ? why : lib.easy_strerror(result));
    answer->status = (int)status;
    answer->retry_after = t.retry_after;
    post_answer_text(answer, t.body, t.n);
    return 0;
}
