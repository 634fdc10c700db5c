#include "cli/suggest.h"

#include <stdio.h>

enum { LONGEST = 48 };

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Levenshtein distance; swapping two neighbors counts as one edit.
static size_t edit_distance(struct str a, struct str b)
{
    size_t rows[3][LONGEST + 1];
    for (size_t k = 0; k <= b.n; k++)
        rows[0][k] = k;
    for (size_t i = 1; i <= a.n; i++) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t k = 1; k <= b.n; k++) {
            now[k] = min_size(min_size(before[k], now[k - 1]) + 1,
                              before[k - 1] + (a.p[i - 1] != b.p[k - 1]));
            if (i > 1 && k > 1 && a.p[i - 1] == b.p[k - 2] && a.p[i - 2] == b.p[k - 1])
                now[k] = min_size(now[k], earlier[k - 2] + 1);
        }
    }
    return rows[a.n % 3][b.n];
}

struct synonym {
    const char *word, *meant;
};

static struct suggestion suggest_begin(struct str word, const struct synonym *synonyms, size_t n)
{
    // Allows an edit in three letters, two in four to seven, and three in longer words.
    struct suggestion s = {.word = word, .distance = min_size(word.n / 4 + 1, 3) + 1};
    for (size_t i = 0; i < n; i++)
        if (str_eq(word, str_from(synonyms[i].word)))
            s.synonym = synonyms[i].meant;
    return s;
}

struct suggestion suggest_command(struct str word)
{
    static const struct synonym synonyms[] = {
        {"record", "run"},        {"exec", "run"},     {"profile", "run"}, {"serve", "server"},
        {"view", "web"},          {"http", "web"},     {"svg", "flame"},   {"graph", "dot"},
        {"upload", "push"},       {"compare", "diff"}, {"report", "top"},  {"text", "top"},
        {"version", "--version"},
    };
    return suggest_begin(word, synonyms, sizeof synonyms / sizeof *synonyms);
}

struct suggestion suggest_option(struct str word)
{
    static const struct synonym synonyms[] = {
        {"port", "listen"}, {"address", "listen"}, {"host", "listen"},   {"http", "listen"},
        {"url", "server"},  {"freq", "F"},         {"frequency", "F"},   {"rate", "F"},
        {"hz", "F"},        {"out", "o"},          {"output", "o"},      {"quiet", "q"},
        {"name", "app"},    {"to", "until"},       {"since", "from"},    {"children", "follow"},
        {"dir", "data"},    {"directory", "data"}, {"service", "label"}, {"memory", "heap"},
    };
    return suggest_begin(word, synonyms, sizeof synonyms / sizeof *synonyms);
}

// Returns whether the words begin alike: typing errors rarely hit the first letter.
static bool begin_alike(struct str a, struct str b)
{
    return a.p[0] == b.p[0] || (a.n > 1 && b.n > 1 && a.p[0] == b.p[1] && a.p[1] == b.p[0]);
}

void suggest_try(struct suggestion *s, const char *candidate)
{
    enum { SHORTEST_PREFIX = 3 };
    struct str c = str_from(candidate), word = s->word;
    if (word.n > LONGEST || c.n > LONGEST || word.n == 0 || c.n == 0)
        return;
    size_t distance = s->distance;
    if (s->synonym && strcmp(s->synonym, candidate) == 0)
        distance = 0;
    else if (begin_alike(word, c))
        distance = edit_distance(word, c);
    if (distance >= s->distance && !*s->best && min_size(word.n, c.n) >= SHORTEST_PREFIX &&
        (str_starts(word, c) || str_starts(c, word)))
        distance = s->distance - 1;
    if (distance >= s->distance || (distance && distance >= c.n))
        return;
    s->distance = distance;
    snprintf(s->best, sizeof s->best, "%s", candidate);
}
