// Push URLs. An accepted URL must mean the same after formatting and parsing it again.
#include <stdio.h>
#include <stdlib.h>

#include "net/post.h"
#include "reader.h"

static void check_url(const struct post_url *url)
{
    char text[2 * sizeof url->shown];
    bool v6 = strchr(url->host, ':');
    struct post_url again;
    struct err e;
    uint64_t port = 0;
    fuzz_require(*url->host && str_to_u64(str_from(url->port), 10, &port));
    fuzz_require(port >= 1 && port <= 65535);
    fuzz_require(!*url->path || *url->path == '/');
    for (const char *p = url->host; *p; p++)
        fuzz_require((unsigned char)*p > ' ');
    for (const char *p = url->path; *p; p++)
        fuzz_require((unsigned char)*p > ' ');
    snprintf(text, sizeof text, "%s://%s%s%s:%s%s/", url->tls ? "https" : "http", v6 ? "[" : "",
             url->host, v6 ? "]" : "", url->port, url->path);
    fuzz_require(post_url_parse(&again, text, &e) == 0);
    fuzz_require(again.tls == url->tls && strcmp(again.host, url->host) == 0 &&
                 strcmp(again.port, url->port) == 0 && strcmp(again.path, url->path) == 0 &&
                 !*again.login);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct post_url url;
    struct err e = {.message = ""};
    char *text = malloc(n + 1);
    if (n)
        memcpy(text, data, n);
    text[n] = '\0';
    if (post_url_parse(&url, text, &e) == 0)
        check_url(&url);
    else
        fuzz_require(e.message[0]);
    free(text);
    return 0;
}
