// /debug/pprof/symbol: names of addresses, which pprof requests for profiles without symbols.
#include <stdlib.h>

#include "agent/endpoints/endpoint.h"

// Repeated addresses could make the response much longer than the request.
enum { NAME_MAX_BYTES = 4096, ANSWER_MAX_BYTES = 16 << 20 };

// 0xHEX or decimal.
static bool parse_address(struct str word, uint64_t *address)
{
    word = str_trim(word);
    bool hex = str_starts(word, STR("0x")) || str_starts(word, STR("0X"));
    return str_to_u64(str_from_to(word, hex ? 2 : 0, word.n), hex ? 16 : 10, address);
}

static uint64_t finish_symbol_job(struct job *job, const struct http_request *q,
                                  struct http_answer *a)
{
    struct str words = str_eq(q->method, STR("POST")) ? q->body : q->query;
    char name[NAME_MAX_BYTES];
    for (size_t from = 0; from < words.n && a->body.n < ANSWER_MAX_BYTES;) {
        size_t plus = str_find(words, STR("+"), from);
        size_t to = plus == SIZE_MAX ? words.n : plus;
        uint64_t address;
        if (parse_address(str_from_to(words, from, to), &address) &&
            agent_symbol((uintptr_t)address, name, sizeof name))
            out_printf(&a->body, "0x%llx %s\n", (unsigned long long)address, name);
        from = to + 1;
    }
    endpoint_compress(q, a);
    free(job);
    return 0;
}

static void abandon_symbol_job(struct job *job)
{
    free(job);
}

bool endpoint_symbol(struct exchange *x)
{
    // pprof only checks that the count is not 0.
    x->a->type = "text/plain; charset=utf-8";
    out_text(&x->a->body, "num_symbols: 1\n");
    struct job *job = x->q->body.n || x->q->query.n ? malloc(sizeof *job) : NULL;
    if (!job)
        return true;
    *job = (struct job){.finish = finish_symbol_job, .abandon = abandon_symbol_job};
    x->later->state = job;
    return false;
}
