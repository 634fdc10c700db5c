// An HTTP answer, of which the status matters.
#include <strings.h>

#include "net/post.h"

// Of the body, as the head tells.
static size_t body_length(struct str head)
{
    struct str line;
    uint64_t n;
    while (str_next_line(&head, &line))
        if (line.n > 15 && strncasecmp(line.p, "Content-Length:", 15) == 0 &&
            str_to_u64(str_trim(str_from_to(line, 15, line.n)), 10, &n))
            return (size_t)n;
    return SIZE_MAX;
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
    head->length = body_length(str_from_to(got, head->begin, head->end));
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
        return err_set(e, "the answer is not HTTP, or was cut off");
    struct str line = str_from_to(got, head.begin, head.end);
    if (line.n < 16 || !str_starts(line, STR("HTTP/1.")) ||
        !str_to_u64(str_from_to(line, 9, 12), 10, &status) || status < 100)
        return err_set(e, "the answer is not HTTP");
    answer->status = (int)status;
    post_answer_text(answer, got.p + head.end, got.n - head.end);
    return 0;
}
