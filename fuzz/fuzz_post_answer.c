// Answers of servers to pushes. The result must not depend on how they are split.
#include "base/retry.h"
#include "net/post.h"
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    // A copy of exact size, so that the sanitizer detects overruns.
    char *p = malloc(n ? n : 1);
    if (n)
        memcpy(p, data, n);
    struct post_head at_once, pieces;
    bool found = post_find_head((struct str){p, n}, &at_once), early = false;
    size_t part = 0;
    for (; part <= n && !early; part++)
        early = post_find_head((struct str){p, part}, &pieces);
    fuzz_require(early == found);
    if (found)
        fuzz_require(at_once.begin == pieces.begin && at_once.end == pieces.end &&
                     at_once.length == pieces.length && at_once.end == part - 1);
    struct post_answer answer = {0};
    struct err e = {.message = ""};
    if (post_parse_answer((struct str){p, n}, &answer, &e) == 0) {
        fuzz_require(found && answer.status >= 100 && answer.status <= 999);
        fuzz_require(answer.retry_after >= -1 && answer.retry_after <= RETRY_AFTER_MAX_S);
        fuzz_require(memchr(answer.text, '\0', sizeof answer.text));
        for (const char *c = answer.text; *c; c++)
            fuzz_require((unsigned char)*c >= ' ' && *c != 0x7f);
    } else {
        fuzz_require(e.message[0]);
    }
    free(p);
    return 0;
}
