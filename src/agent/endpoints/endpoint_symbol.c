// Names of addresses, as pprof asks for them when a profile came without.
#include <stdlib.h>

#include "agent/endpoints/endpoint.h"

// An address that is asked for again and again makes the answer longer than the question.
enum { NAME_MAX_BYTES = 4096, ANSWER_MAX_BYTES = 16 << 20 };

// 0xHEX or decimal.
static bool to_address(struct str word, uint64_t *address)
{
    word = str_trim(word);
    bool hex = str_starts(word, STR("0x")) || str_starts(word, STR("0X"));
    return str_to_u64(str_from_to(word, hex ? 2 : 0, word.n), hex ? 16 : 10, address);
}

static uint64_t finish(struct job *job, const struct http_request *q, struct http_answer *a)
{
    struct str words = str_eq(q->method, STR("POST")) ? q->body : q->query;
    char name[NAME_MAX_BYTES];
    for (size_t from = 0; from < words.n && a->body.n < ANSWER_MAX_BYTES;) {
        size_t plus = str_find(words, STR("+"), from);
        size_t to = plus == SIZE_MAX ? words.n : plus;
        uint64_t address;
        if (to_address(str_from_to(words, from, to), &address) &&
            agent_symbol((uintptr_t)address, name, sizeof name))
            out_printf(&a->body, "0x%llx %s\n", (unsigned long long)address, name);
        from = to + 1;
    }
    endpoint_compress(q, a);
    free(job);
    return 0;
}

static void abandon(struct job *job)
{
    free(job);
}

bool endpoint_symbol(struct exchange *x)
{
    // The count only has to be more than none: it says that there are symbols to be had.
    x->a->type = "text/plain; charset=utf-8";
    out_text(&x->a->body, "num_symbols: 1\n");
    struct job *job = x->q->body.n || x->q->query.n ? malloc(sizeof *job) : NULL;
    if (!job)
        return true;
    *job = (struct job){.finish = finish, .abandon = abandon};
    x->later->state = job;
    return false;
}
