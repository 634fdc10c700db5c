// Parses HTTP answers. Only the status matters.
#include <strings.h>
#include <time.h>

#include "base/retry.h"
#include "net/post.h"

// Returns the value of a header line. p is NULL if the line is another header.
static struct str header_value(struct str line, struct str name)
{
    if (line.n <= name.n || line.p[name.n] != ':' || strncasecmp(line.p, name.p, name.n) != 0)
        return (struct str){NULL, 0};
    return str_trim(str_from_to(line, name.n + 1, line.n));
}

int64_t post_retry_after(struct str line)
{
    struct str value = header_value(line, STR("Retry-After"));
    return value.p ? retry_after_parse(value, (int64_t)time(NULL)) : -1;
}

static void post_read_head(struct str text, struct post_head *head)
{
    struct str line, value;
    uint64_t n;
    head->length = SIZE_MAX;
    head->retry_after = -1;
    while (str_next_line(&text, &line)) {
        value = header_value(line, STR("Content-Length"));
        if (value.p && head->length == SIZE_MAX && str_to_u64(value, 10, &n))
            head->length = (size_t)n;
        if (head->retry_after < 0)
            head->retry_after = post_retry_after(line);
    }
}

bool post_find_head(struct str got, struct post_head *head)
{
    head->begin = head->end = 0;
    for (;;) {
        struct str rest = str_from_to(got, head->end, got.n);
        size_t end = str_find(rest, STR("\r\n\r\n"), 0);
        if (end == SIZE_MAX)
            return false;
        bool interim = end > 9 && rest.p[9] == '1'; // 100 Continue
        head->begin = head->end;
        head->end += end + 4;
        if (!interim)
            break;
    }
    post_read_head(str_from_to(got, head->begin, head->end), head);
    return true;
}

void post_answer_text(struct post_answer *answer, const char *body, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n && k + 1 < sizeof answer->text; i++) {
        unsigned char c = (unsigned char)body[i];
        answer->text[k++] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
    }
    while (k && answer->text[k - 1] == ' ')
        k--;
    answer->text[k] = '\0';
}

int post_parse_answer(struct str got, struct post_answer *answer, struct err *e)
{
    struct post_head head;
    uint64_t status;
    if (got.n == 0)
        return err_set(e, "the server closed the connection");
    if (!post_find_head(got, &head))
        return err_set(e, "the response is not HTTP, or was cut off");
    struct str line = str_from_to(got, head.begin, head.end);
    if (line.n < 16 || !str_starts(line, STR("HTTP/1.")) ||
        !str_to_u64(str_from_to(line, 9, 12), 10, &status) || status < 100)
        return err_set(e, "the response is not HTTP");
    answer->status = (int)status;
    answer->retry_after = head.retry_after;
    post_answer_text(answer, got.p + head.end, got.n - head.end);
    return 0;
}
