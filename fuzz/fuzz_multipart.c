#include "reader.h"
#include "net/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct multipart m;
    struct str name, content, body = {(const char *)data, n};
    struct err e = {.message = ""};
    // The first line is the Content-Type.
    struct str type;
    if (!str_next_line(&body, &type))
        return 0;
    if (multipart_begin(&m, type, body, &e))
        return 0;
    int more;
    for (size_t parts = 0; (more = multipart_next(&m, &name, &content, &e)) > 0; parts++) {
        fuzz_require(parts <= n);
        fuzz_require(content.p >= body.p && content.p + content.n <= body.p + body.n);
    }
    fuzz_require(more == 0 || e.message[0]);
    return 0;
}
