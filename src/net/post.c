#include "net/post.h"

#include "process/clock.h"

uint64_t post_time_left(const struct post *post, uint64_t deadline)
{
    uint64_t until = post->until ? atomic_load(post->until) : 0, now = process_now_ns();
    if (until && until < deadline)
        deadline = until;
    return deadline > now ? deadline - now : 0;
}

int post_prepare(const struct post_url *url, struct err *e)
{
    return url->tls ? post_curl_load(e) : 0;
}

int post_send(const struct post *post, struct post_answer *answer, struct err *e)
{
    uint64_t deadline = process_now_ns() + post->timeout_ns;
    *answer = (struct post_answer){.retry_after = -1};
    int result = post->url->tls ? post_curl(post, deadline, answer, e)
                                : post_plain(post, deadline, answer, e);
    return result ? err_prefix(e, "%s: ", post->url->shown) : 0;
}
