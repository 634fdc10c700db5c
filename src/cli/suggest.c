#include "cli/suggest.h"

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

struct suggestion suggest_begin(struct str word)
{
    // Allows edits of a third of the word, at most three.
    return (struct suggestion){word, min_size(word.n / 3 + 1, 3) + 1};
}

bool suggest_try(struct suggestion *s, const char *candidate)
{
    struct str c = str_from(candidate);
    if (s->word.n > LONGEST || c.n > LONGEST || s->word.n == 0)
        return false;
    size_t d = edit_distance(s->word, c);
    if (d >= s->best || d >= c.n)
        return false;
    s->best = d;
    return true;
}
