// Tenants take turns: a look goes on for some series, then that of the next tenant. So a tenant
// with thousands of services delays the looks at the others by a few series, not by all of its own.
#include <stdlib.h>

#include "changes/look.h"

struct turn {
    struct turn *next;
    struct look look;
    struct arena *arena; // of the look; NULL before its first turn
    char tenant[];
};

static void append_turn(struct changes *c, struct turn *t)
{
    t->next = NULL;
    if (!c->first_turn)
        c->last_turn = &c->first_turn;
    *c->last_turn = t;
    c->last_turn = &t->next;
}

// Takes the first turn. While looks between their turns hold half of the memory, no other look
// begins, so that each has room for its series: takes the first turn of those under way.
static struct turn *take_next(struct changes *c)
{
    const struct budget_account *a = &c->budget.account;
    struct turn **at = &c->first_turn;
    if (a->limit && a->held > a->limit / 2)
        while (*at && !(*at)->arena)
            at = &(*at)->next;
    if (!*at)
        at = &c->first_turn;
    struct turn *t = *at;
    if (!t)
        return NULL;
    *at = t->next;
    if (c->last_turn == &t->next)
        c->last_turn = at;
    return t;
}

static void init_look(struct changes *c, struct turn *t)
{
    arena_free(t->arena);
    t->arena = NULL;
    t->look = (struct look){.c = c,
                            .tenant = str_from(t->tenant),
                            .window = c->options.window,
                            .begin = c->turns_end - CHANGES_WINDOWS * c->options.window,
                            .end = c->turns_end};
}

static void free_turn(struct turn *t)
{
    arena_free(t->arena);
    free(t);
}

static int add_turn(struct changes *c, struct str tenant, struct err *e)
{
    struct turn *t = calloc(1, sizeof *t + tenant.n + 1);
    if (!t)
        return err_set(e, "out of memory"), STORE_BUSY;
    memcpy(t->tenant, tenant.p, tenant.n);
    init_look(c, t);
    append_turn(c, t);
    return 0;
}

int64_t turns_window(const struct changes *c, int64_t now)
{
    int64_t window = c->options.window;
    // Agents send what they have a little later.
    return (now - window / 12) / window * window;
}

// Those that no look is under way for.
static int add_others(struct changes *c, struct str *tenants, size_t n, struct err *e)
{
    bool *waits = calloc(n + 1, sizeof *waits);
    int code = 0;
    if (!waits)
        return err_set(e, "out of memory"), STORE_BUSY;
    if (n)
        qsort(tenants, n, sizeof *tenants, str_compare);
    for (const struct turn *t = n ? c->first_turn : NULL; t; t = t->next) {
        const struct str *at = bsearch(&t->look.tenant, tenants, n, sizeof *at, str_compare);
        if (at)
            waits[at - tenants] = true;
    }
    for (size_t i = 0; i < n && !code; i++)
        if (!waits[i])
            code = add_turn(c, tenants[i], e);
    free(waits);
    return code;
}

int turns_begin(struct changes *c, int64_t end, struct err *e)
{
    struct arena *arena = arena_new_in(&c->budget, 0);
    struct str *tenants = NULL;
    size_t n = 0;
    if (!arena)
        return err_set(e, "out of memory"), STORE_BUSY;
    c->turns_end = end;
    int code = end > CHANGES_WINDOWS * c->options.window
                   ? store_tenants(c->options.store, arena, &tenants, &n, e)
                   : 0;
    if (!code)
        code = add_others(c, tenants, n, e);
    arena_free(arena);
    return code;
}

static int go_on(struct turn *t, struct err *e)
{
    struct look *l = &t->look;
    struct arena_trap trap;
    if (ARENA_TRY(t->arena, trap)) {
        arena_caught(t->arena, e);
        look_clear(l);
        return STORE_BUSY;
    }
    int code = look_go_on(l, t->arena, e);
    arena_try_end(t->arena);
    return code;
}

// As look_go_on. A look that has been made before is over at once.
static int take_turn(struct changes *c, struct turn *t, struct err *e)
{
    struct look *l = &t->look;
    struct db db;
    int64_t looked = 0;
    if (!t->arena)
        t->arena = arena_new_in(&c->budget, 0);
    if (!t->arena)
        return err_set(e, "out of memory"), STORE_BUSY;
    int code = state_open(c, l->tenant, DB_CREATE, &db, e);
    if (code)
        return code;
    l->db = &db;
    // What a power failure takes is found again.
    code = db_exec(&db, "PRAGMA synchronous=NORMAL", e);
    if (!code)
        code = state_number(&db, "looked", &looked, e);
    if (!code && looked != l->end)
        code = go_on(t, e);
    db_rollback(&db);
    db_close(&db);
    if (looked == l->end || code > 0)
        return code;
    pthread_mutex_lock(&c->lock);
    c->counters.looks += !code;
    pthread_mutex_unlock(&c->lock);
    // Also of a look that failed: it has kept what it found before.
    state_changed(c);
    return code;
}

static void look_failed(struct changes *c, const struct turn *t, struct err *e)
{
    pthread_mutex_lock(&c->lock);
    c->counters.failed++;
    pthread_mutex_unlock(&c->lock);
    err_prefix(e, "tenant %s: ", t->tenant);
}

bool turns_next(struct changes *c, int *code, struct err *e)
{
    struct turn *t = take_next(c);
    *code = 0;
    if (!t)
        return false;
    if (budget_check(&c->budget)) {
        budget_explain(&c->budget, e);
        *code = STORE_BUSY;
        free_turn(t);
        turns_drop(c);
        return true;
    }
    int result = take_turn(c, t, e);
    job_throttle(c);
    if (result > 0) {
        append_turn(c, t);
    } else if (!result && t->look.end != c->turns_end) {
        // A window has passed meanwhile.
        init_look(c, t);
        append_turn(c, t);
    } else {
        if (result)
            look_failed(c, t, e);
        free_turn(t);
    }
    *code = result < 0 ? result : 0;
    return true;
}

void turns_drop(struct changes *c)
{
    struct turn *t;
    while ((t = take_next(c)))
        free_turn(t);
    c->turns_end = 0;
}

int changes_look(struct changes *c, int64_t now, struct err *e)
{
    struct err why = {""};
    int code, result = turns_begin(c, turns_window(c, now), e);
    while (turns_next(c, &code, &why))
        if (code) {
            result = code;
            *e = why;
        }
    return result;
}
