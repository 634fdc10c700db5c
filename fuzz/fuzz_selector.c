// Label selectors, and whether series match them.
#include "model/regex.h"
#include "query/query.h"
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

// An expression may take too long; that is an error of the query.
static void try_matchers(const struct query_selector *s, struct arena *arena)
{
    static const char *const values[] = {"", "x", "eu-west-1", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                         "\xff"};
    struct arena_trap trap;
    struct err e = {""};
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, &e);
        fuzz_require(e.message[0]);
        return;
    }
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; s->matchers[i].regex && k < sizeof values / sizeof *values; k++)
            model_regex_match(s->matchers[i].regex, str_from(values[k]));
    arena_try_end(arena);
}

static void check_selector(const struct query_selector *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct store_matcher *m = &s->matchers[i];
        bool regex = m->op == STORE_RE || m->op == STORE_NRE;
        fuzz_require(m->op >= STORE_EQ && m->op <= STORE_NRE);
        fuzz_require(regex || !m->regex);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    // A copy of exact size, freed after the result was checked.
    char *copy = malloc(n ? n : 1);
    struct arena *arena = arena_new(64 << 20);
    struct query_selector selector;
    struct err e = {""};
    fuzz_require(copy && arena);
    if (n)
        memcpy(copy, data, n);
    struct str text = {copy, n}, type = text;
    int code = query_selector(text, arena, &selector, &e);
    fuzz_require(!code || e.message[0]);
    if (!query_type(&type, &e)) {
        struct str count = query_count_type(type, arena);
        fuzz_require(type.n <= n && count.n <= n + 32);
    }
    if (!code) {
        check_selector(&selector);
        try_matchers(&selector, arena);
    }
    free(copy);
    arena_free(arena);
    return 0;
}
