#include <stdlib.h>

#include "query/query.h"

// Maximum windows and groups per side.
enum { MOST_WINDOWS = 16, MOST_GROUPS = 16 };
enum { SHORT_WINDOWS = 12 }; // for a range too short for roll-ups
enum { CELLS = 128 };        // resolution of the search for profiles

static const int64_t MINUTES_5 = INT64_C(300) * 1000000000, HOUR = INT64_C(3600) * 1000000000;

// Labels that identify the pod of a profile; the first one that a series has is used.
static const char *const POD_LABELS[] = {
    "pod",      "k8s_pod_name", "k8s.pod.name", "service_instance_id", "service.instance.id",
    "instance", "hostname",     "host_name",    "host.name",           "host",
};

// Returns the label with the pod of a series; without a name if there is none.
static struct store_label pod_label(const struct store_series *series)
{
    for (size_t k = 0; k < sizeof POD_LABELS / sizeof *POD_LABELS; k++)
        for (size_t i = 0; i < series->n_labels; i++)
            if (str_eq(series->labels[i].name, str_from(POD_LABELS[k])))
                return series->labels[i];
    return (struct store_label){STR(""), STR("")};
}

static int compare_pod_names(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static uint32_t pod_group(void *ctx, const struct store_series *series)
{
    const struct query_pods *pods = ctx;
    struct str pod = pod_label(series).value;
    const struct str *at =
        pods->n ? bsearch(&pod, pods->items, pods->n, sizeof pod, compare_pod_names) : NULL;
    return at ? (uint32_t)((size_t)(at - pods->items) * pods->n_groups / pods->n) : 0;
}

// Finds the pods of lines, and narrows start and end to where they have profiles.
static void scan_pods(const struct store_line *lines, size_t n, int64_t step, int64_t *start,
                      int64_t *end, struct query_pods *pods, struct arena *arena)
{
    int64_t first = INT64_MAX, last = -1, begin = *start;
    pods->items = arena_array(arena, n + 1, sizeof *pods->items);
    pods->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct store_line *line = &lines[i];
        arena_spend(arena, 1);
        if (!line->n_points)
            continue;
        if (line->points[0].index < first)
            first = line->points[0].index;
        if (line->points[line->n_points - 1].index > last)
            last = line->points[line->n_points - 1].index;
        struct store_label pod = pod_label(&line->series);
        pods->items[pods->n++] = pod.value;
        if (!pods->label.n)
            pods->label = pod.name;
    }
    if (last < 0)
        return;
    // A point covers the time after the previous point up to its own.
    if (first > 0)
        *start = begin + (first - 1) * step + 1;
    if (*end - begin > last * step)
        *end = begin + last * step;
    qsort(pods->items, pods->n, sizeof *pods->items, compare_pod_names);
    size_t kept = 0;
    for (size_t i = 0; i < pods->n; i++)
        if (i == 0 || !str_eq(pods->items[kept - 1], pods->items[i]))
            pods->items[kept++] = pods->items[i];
    pods->n = kept;
}

static void plan_windows(int64_t start, int64_t end, struct store_blocks *b)
{
    int64_t length = end - start + 1;
    int64_t unit = length >= 6 * HOUR ? HOUR : length >= 6 * MINUTES_5 ? MINUTES_5 : 0;
    if (!unit) {
        b->origin = start;
        b->step = (length + SHORT_WINDOWS - 1) / SHORT_WINDOWS;
        b->n_windows = SHORT_WINDOWS;
        return;
    }
    // Align windows with the roll-ups' hours or five minutes.
    b->origin = start - start % unit;
    int64_t units = (end - b->origin) / unit + 1, each = (units + MOST_WINDOWS - 1) / MOST_WINDOWS;
    b->step = each * unit;
    b->n_windows = (uint32_t)((units + each - 1) / each);
}

static int plan_side(struct store *store, const struct store_select *select, struct arena *arena,
                     struct query_pods *pods, struct store_blocks *b, struct store_answer *answer,
                     struct err *e)
{
    struct store_select narrow = *select;
    for (int round = 0; round < 4; round++) {
        struct store_line *lines;
        size_t n;
        int64_t length = narrow.end - narrow.start, step = length / CELLS + 1;
        int code = store_lines(store, &narrow, step, arena, &lines, &n, answer, e);
        if (code)
            return code;
        scan_pods(lines, n, step, &narrow.start, &narrow.end, pods, arena);
        if (narrow.end - narrow.start > length / 8)
            break;
    }
    plan_windows(narrow.start, narrow.end, b);
    return 0;
}

static bool same_pods(const struct query_pods *a, const struct query_pods *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = str_eq(a->items[i], b->items[i]);
    return same;
}

static int plan_blocks(struct store *store, const struct store_select selects[2],
                       struct arena *arena, struct query_blocks *blocks,
                       struct store_answer *answer, struct err *e)
{
    struct query_pods *pods = blocks->pods;
    for (int i = 0; i < 2; i++) {
        int code = plan_side(store, &selects[i], arena, &pods[i], &blocks->sides[i], answer, e);
        if (code)
            return code;
    }
    // Pods that are on both sides cannot explain a difference.
    bool grouped = !same_pods(&pods[0], &pods[1]) && pods[0].n + pods[1].n > 2;
    for (int i = 0; i < 2; i++) {
        pods[i].n_groups = pods[i].n < MOST_GROUPS ? pods[i].n : MOST_GROUPS;
        blocks->sides[i].group = pod_group;
        blocks->sides[i].ctx = &pods[i];
    }
    // Both sides need the same columns; windows and groups without profiles do not count.
    struct store_blocks *left = &blocks->sides[0], *right = &blocks->sides[1];
    size_t groups = pods[0].n_groups > pods[1].n_groups ? pods[0].n_groups : pods[1].n_groups;
    left->n_windows = right->n_windows =
        left->n_windows > right->n_windows ? left->n_windows : right->n_windows;
    left->n_groups = right->n_groups = grouped ? (uint32_t)groups : 0;
    return 0;
}

int query_blocks(struct store *store, const struct store_select selects[2], struct arena *arena,
                 struct query_blocks *blocks, struct store_answer *answer, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    *blocks = (struct query_blocks){0};
    int code = plan_blocks(store, selects, arena, blocks, answer, e);
    arena_try_end(arena);
    return code;
}
