#include "stats/functions.h"

#include <math.h>
#include <string.h>

#include "base/sort.h"

// Stacks that contain the same changed rows, summed per profile.
struct group {
    uint32_t *rows; // those with a changed total, sorted
    uint32_t n;
    uint32_t culprit; // + 1; 0: its change is not explained
    struct stats_cell *cells;
};

struct stats_groups {
    struct group *items;
    size_t n, cap;
    struct hash_table index;
    uint32_t *buffer; // for the rows of a sample
    // The groups of row i are of_row[first[i]] to of_row[first[i + 1]].
    size_t *first;
    uint32_t *of_row;
    struct stats_cell *rest; // a cell per profile
};

void stats_functions_init(struct stats_functions *f, const size_t n_profiles[2],
                          struct arena *arena)
{
    *f = (struct stats_functions){.arena = arena, .n_profiles = {n_profiles[0], n_profiles[1]}};
    hash_init(&f->index, arena, 256);
}

uint32_t stats_functions_find(const struct stats_functions *f, struct str name)
{
    uint64_t hash = hash_bytes(name.p, name.n, 0);
    for (struct hash_probe at = hash_find(&f->index, hash); hash_hit(&f->index, &at);
         hash_next(&f->index, &at))
        if (str_eq(f->rows[at.item].name, name))
            return at.item;
    return UINT32_MAX;
}

uint32_t stats_functions_row(struct stats_functions *f, struct str name)
{
    uint32_t row = stats_functions_find(f, name);
    if (row != UINT32_MAX)
        return row;
    f->rows = arena_push(f->arena, f->rows, f->n, &f->cap, sizeof *f->rows);
    f->rows[f->n] = (struct stats_function){.name = name};
    hash_add(&f->index, f->arena, hash_bytes(name.p, name.n, 0), (uint32_t)f->n);
    return (uint32_t)f->n++;
}

static size_t profiles_of(const struct stats_functions *f)
{
    return f->n_profiles[0] + f->n_profiles[1];
}

static void add_cell(struct stats_cell *to, struct stats_cell cell)
{
    to->value += cell.value;
    to->variance += cell.variance;
}

static void count_sample(struct stats_functions *f, size_t profile, const uint32_t *rows, size_t n,
                         struct stats_cell cell)
{
    size_t k = profiles_of(f);
    add_cell(&f->self[rows[0] * k + profile], cell);
    f->n_seen++;
    for (size_t i = 0; i < n; i++) {
        if (f->seen[rows[i]] == f->n_seen)
            continue;
        f->seen[rows[i]] = f->n_seen;
        add_cell(&f->sums[rows[i] * k + profile], cell);
    }
}

// --- groups ---

static int compare_function_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static struct group *find_group(struct stats_functions *f, const uint32_t *rows, uint32_t n,
                                uint32_t culprit)
{
    struct stats_groups *g = f->groups;
    uint64_t hash = hash_bytes(rows, n * sizeof *rows, culprit);
    for (struct hash_probe at = hash_find(&g->index, hash); hash_hit(&g->index, &at);
         hash_next(&g->index, &at)) {
        struct group *group = &g->items[at.item];
        if (group->n == n && group->culprit == culprit &&
            memcmp(group->rows, rows, n * sizeof *rows) == 0)
            return group;
    }
    g->items = arena_push(f->arena, g->items, g->n, &g->cap, sizeof *g->items);
    hash_add(&g->index, f->arena, hash, (uint32_t)g->n);
    struct group *group = &g->items[g->n++];
    *group = (struct group){
        .rows = arena_array(f->arena, n, sizeof *rows),
        .n = n,
        .culprit = culprit,
        .cells = arena_array(f->arena, profiles_of(f), sizeof *group->cells),
    };
    memcpy(group->rows, rows, n * sizeof *rows);
    return group;
}

static void group_sample(struct stats_functions *f, size_t profile, const uint32_t *rows, size_t n,
                         struct stats_cell cell)
{
    uint32_t *found = f->groups->buffer, n_found = 0;
    f->n_seen++;
    for (size_t i = 0; i < n; i++) {
        if (f->seen[rows[i]] == f->n_seen)
            continue;
        f->seen[rows[i]] = f->n_seen;
        if (f->rows[rows[i]].total.mark == STATS_CHANGED)
            found[n_found++] = rows[i];
    }
    if (!n_found)
        return;
    sort_items(f->arena, found, n_found, sizeof *found, compare_function_numbers);
    bool culprit = f->rows[rows[0]].self.mark == STATS_CHANGED;
    struct group *group = find_group(f, found, n_found, culprit ? rows[0] + 1 : 0);
    add_cell(&group->cells[profile], cell);
}

void stats_functions_add(struct stats_functions *f, size_t profile, const uint32_t *rows, size_t n,
                         struct stats_cell cell)
{
    if (!n)
        return;
    arena_spend(f->arena, n);
    f->take(f, profile, rows, n, cell);
}

// --- culprits ---

static void index_groups(struct stats_functions *f)
{
    struct stats_groups *g = f->groups;
    g->first = arena_array(f->arena, f->n + 2, sizeof *g->first);
    for (size_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->items[i].n; k++)
            g->first[g->items[i].rows[k] + 2]++;
    for (size_t i = 2; i < f->n + 2; i++)
        g->first[i] += g->first[i - 1];
    g->of_row = arena_array(f->arena, g->first[f->n + 1] + 1, sizeof *g->of_row);
    for (size_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->items[i].n; k++)
            g->of_row[g->first[g->items[i].rows[k] + 1]++] = (uint32_t)i;
}

static double size_of(const struct stats_functions *f, uint32_t row)
{
    return fabs(f->rows[row].total.change.before) + fabs(f->rows[row].total.change.after);
}

static int by_size(const void *a, const void *b, void *context)
{
    const struct stats_functions *f = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    double left = size_of(f, x), right = size_of(f, y);
    return left != right ? (left > right ? 1 : -1) : str_cmp(f->rows[x].name, f->rows[y].name);
}

static double change_of_self_or_total(const struct stats_functions *f, uint32_t row)
{
    const struct stats_function *r = &f->rows[row];
    const struct stats_change *c =
        r->self.mark == STATS_CHANGED ? &r->self.change : &r->total.change;
    return fabs(c->after - c->before);
}

// The part of the row's change, beyond the scale, that remains without the stacks of culprits.
static double remaining_part(const struct stats_functions *f, uint32_t row,
                             const struct stats_change *rest)
{
    const struct stats_change *all = &f->rows[row].total.change;
    double scale = stats_scale(&f->fit), change = all->after - scale * all->before;
    return change != 0 ? (rest->after - scale * rest->before) / change : 0;
}

// Whether the row's change remains without the stacks of culprits, at a p-value of at most cutoff.
static void find_row_culprit(struct stats_functions *f, uint32_t row, double cutoff)
{
    struct stats_groups *g = f->groups;
    size_t k = profiles_of(f);
    uint32_t largest = UINT32_MAX;
    memset(g->rest, 0, k * sizeof *g->rest);
    for (size_t i = g->first[row]; i < g->first[row + 1]; i++) {
        const struct group *group = &g->items[g->of_row[i]];
        arena_spend(f->arena, k);
        if (!group->culprit) {
            for (size_t j = 0; j < k; j++)
                add_cell(&g->rest[j], group->cells[j]);
        } else if (largest == UINT32_MAX || change_of_self_or_total(f, group->culprit - 1) >
                                                change_of_self_or_total(f, largest)) {
            largest = group->culprit - 1;
        }
    }
    struct stats_measure *total = &f->rows[row].total;
    struct stats_change rest = stats_test(&f->fit, g->rest);
    bool is_own = rest.p <= cutoff;
    total->own = 1;
    total->because = largest == UINT32_MAX ? row : largest;
    if (largest == row) {
        // A function whose own code changed explains its own total.
        total->mark = STATS_CHANGED;
    } else if (largest != UINT32_MAX) {
        total->own = remaining_part(f, row, &rest);
        total->mark = is_own ? STATS_CHANGED : STATS_CALLEE;
    } else if (!is_own) {
        total->mark = STATS_NOISE;
    }
    if (!is_own)
        return;
    for (size_t i = g->first[row]; i < g->first[row + 1]; i++)
        if (!g->items[g->of_row[i]].culprit)
            g->items[g->of_row[i]].culprit = row + 1;
}

// The most specific first: a caller has at least the stacks of its callee. One culprit may have
// hundreds of callers, whose change is true but not their own. At the level of those, there would
// be more false culprits than true ones. So only culprits count as discoveries.
static void find_function_culprits(struct stats_functions *f)
{
    uint32_t *order = arena_array(f->arena, f->n + 1, sizeof *order), n = 0, n_culprits = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        n_culprits += f->rows[i].self.mark == STATS_CHANGED;
        if (f->rows[i].total.mark == STATS_CHANGED)
            order[n++] = i;
    }
    if (!n)
        return;
    f->groups = arena_alloc(f->arena, sizeof *f->groups);
    f->groups->buffer = arena_array(f->arena, f->n + 1, sizeof *f->groups->buffer);
    hash_init(&f->groups->index, f->arena, 256);
    f->groups->rest = arena_array(f->arena, profiles_of(f) + 1, sizeof *f->groups->rest);
    f->take = group_sample;
    f->each(f->context, f);
    index_groups(f);
    sort_items_by(f->arena, order, n, sizeof *order, by_size, f);
    double n_tests = (double)(f->n_self + f->n_totals);
    for (uint32_t i = 0; i < n; i++) {
        const struct stats_function *row = &f->rows[order[i]];
        find_row_culprit(f, order[i], f->level * fmax(n_culprits, 1) / n_tests);
        n_culprits += row->total.mark == STATS_CHANGED && row->self.mark != STATS_CHANGED;
    }
}

// --- tests ---

static bool equal_cells(const struct stats_cell *a, const struct stats_cell *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i].value != b[i].value)
            return false;
    return true;
}

// Marks those of a family of tests that are beyond the false discovery rate.
static void mark_measures(struct stats_functions *f, struct stats_measure **measures, size_t n)
{
    double *p = arena_array(f->arena, n + 1, sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = measures[i]->change.p;
    stats_adjust(p, p, n, f->arena);
    for (size_t i = 0; i < n; i++) {
        measures[i]->q = p[i];
        if (p[i] <= f->level)
            measures[i]->mark = STATS_CHANGED;
    }
}

// Self values and totals are two families: the callers of one culprit are true discoveries, and
// would allow for as many false ones among the functions themselves.
static void mark_rows(struct stats_functions *f)
{
    size_t k = profiles_of(f);
    struct stats_measure **self = arena_array(f->arena, f->n + 1, sizeof *self);
    struct stats_measure **totals = arena_array(f->arena, f->n + 1, sizeof *totals);
    f->n_self = f->n_totals = 0;
    for (size_t i = 0; i < f->n; i++) {
        struct stats_function *row = &f->rows[i];
        const struct stats_cell *cells = f->self + i * k, *sums = f->sums + i * k;
        arena_spend(f->arena, 2 * k);
        row->self.change = stats_test(&f->fit, cells);
        row->total.change = stats_test(&f->fit, sums);
        row->self.q = row->total.q = 1;
        if (row->self.change.before != 0 || row->self.change.after != 0)
            self[f->n_self++] = &row->self;
        // A function that calls nothing is tested once.
        if (!equal_cells(cells, sums, k))
            totals[f->n_totals++] = &row->total;
    }
    mark_measures(f, self, f->n_self);
    mark_measures(f, totals, f->n_totals);
    for (size_t i = 0; i < f->n; i++)
        if (equal_cells(f->self + i * k, f->sums + i * k, k))
            f->rows[i].total = f->rows[i].self;
}

// The p-value at which one more function would be a culprit.
static double find_cutoff(const struct stats_functions *f)
{
    double n = 0;
    for (size_t i = 0; i < f->n; i++)
        n += f->rows[i].self.mark == STATS_CHANGED || f->rows[i].total.mark == STATS_CHANGED;
    return f->level * fmax(n, 1) / (double)(f->n_self + f->n_totals);
}

void stats_functions_compare(struct stats_functions *f, double level)
{
    size_t k = profiles_of(f);
    f->level = level;
    f->self = arena_array(f->arena, f->n * k + 1, sizeof *f->self);
    f->sums = arena_array(f->arena, f->n * k + 1, sizeof *f->sums);
    f->seen = arena_array(f->arena, f->n + 1, sizeof *f->seen);
    f->take = count_sample;
    f->each(f->context, f);
    struct stats_rows rows = {.n = f->n,
                              .n_profiles = {f->n_profiles[0], f->n_profiles[1]},
                              .cells = f->self,
                              .absolute = f->absolute};
    stats_fit(&rows, f->arena, &f->fit);
    f->total = stats_test_total(&rows, &f->fit, f->arena);
    f->total_changed = f->total.p <= level;
    mark_rows(f);
    find_function_culprits(f);
    f->cutoff = find_cutoff(f);
}

static void take_larger_measure(struct stats_measure *m, const struct stats_measure *other)
{
    if (other->q > m->q)
        m->q = other->q;
    if (other->change.p > m->change.p)
        m->change.p = other->change.p;
    if (other->mark == STATS_NOISE)
        m->mark = STATS_NOISE;
}

void stats_functions_confirm(struct stats_functions *f, struct stats_functions *other)
{
    for (size_t i = 0; i < f->n; i++) {
        uint32_t row = stats_functions_row(other, f->rows[i].name);
        take_larger_measure(&f->rows[i].self, &other->rows[row].self);
        take_larger_measure(&f->rows[i].total, &other->rows[row].total);
    }
    // A function that did not change explains no other change.
    for (size_t i = 0; i < f->n; i++) {
        struct stats_measure *total = &f->rows[i].total;
        const struct stats_function *because = &f->rows[total->because];
        if (total->mark == STATS_CALLEE && !because->self.mark && !because->total.mark)
            total->mark = STATS_NOISE;
    }
    f->total_changed &= other->total_changed;
}
