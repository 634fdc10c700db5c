#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/clickhouse.h"

enum {
    INSERT_MS = 60000,
    CONNECT_MS = 10000,
    STATEMENT_MAX = 256 << 20,
};
#define ANSWER_MAX ((size_t)2 << 30)

void sql_text(struct out *sql, struct str value)
{
    static const char digits[] = "0123456789abcdef";
    out_char(sql, '\'');
    for (size_t i = 0; i < value.n; i++) {
        unsigned char c = (unsigned char)value.p[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '_' || c == '-' || c == '.' || c == '/') {
            out_char(sql, (char)c);
        } else {
            const char escaped[] = {'\\', 'x', digits[c >> 4], digits[c & 15]};
            out_write(sql, escaped, sizeof escaped);
        }
    }
    out_char(sql, '\'');
}

static int number_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

size_t sql_distinct(uint64_t *numbers, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(numbers, n, sizeof *numbers, number_order);
    for (size_t i = 0; i < n; i++)
        if (!kept || numbers[kept - 1] != numbers[i])
            numbers[kept++] = numbers[i];
    return kept;
}

void sql_numbers(struct out *sql, const uint64_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i)
            out_char(sql, ',');
        out_u64(sql, numbers[i]);
    }
    if (!n) // ClickHouse rejects an empty list.
        out_text(sql, "NULL");
}

void sql_id(struct out *sql, struct id id)
{
    sql_text(sql, (struct str){(const char *)&id, sizeof id});
}

void sql_ids(struct out *sql, const struct id *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i)
            out_char(sql, ',');
        sql_id(sql, ids[i]);
    }
    if (!n)
        out_text(sql, "NULL");
}

struct id row_id(struct unpack *b)
{
    struct id id = {.a = row_u64(b)};
    id.b = row_u64(b);
    return id;
}

__int128 row_sum(struct unpack *b)
{
    uint64_t total = row_u64(b), high = row_u64(b);
    return (__int128)(int64_t)high * ((__int128)1 << 32) + (int64_t)(total - (high << 32));
}

uint64_t row_u64(struct unpack *b)
{
    uint64_t v = 0;
    struct str s = unpack_bytes(b, sizeof v);
    if (s.n == sizeof v)
        memcpy(&v, s.p, sizeof v);
    return v;
}

uint32_t row_u32(struct unpack *b)
{
    uint32_t v = 0;
    struct str s = unpack_bytes(b, sizeof v);
    if (s.n == sizeof v)
        memcpy(&v, s.p, sizeof v);
    return v;
}

uint8_t row_u8(struct unpack *b)
{
    struct str s = unpack_bytes(b, 1);
    return s.n ? (uint8_t)s.p[0] : 0;
}

// Connections are reused; each running request has its own client.
static struct clickhouse_client *client_take(struct clickhouse *c, struct err *e)
{
    pthread_mutex_lock(&c->lock);
    struct clickhouse_client *client = c->idle;
    if (client)
        c->idle = client->next;
    pthread_mutex_unlock(&c->lock);
    if (client)
        return client;
    client = calloc(1, sizeof *client);
    if (!client) {
        err_set(e, "no memory for a request to ClickHouse");
        return NULL;
    }
    if (!(client->net = net_client_new(e))) {
        free(client);
        return NULL;
    }
    return client;
}

static void client_give(struct clickhouse *c, struct clickhouse_client *client)
{
    pthread_mutex_lock(&c->lock);
    client->next = c->idle;
    c->idle = client;
    pthread_mutex_unlock(&c->lock);
}

struct exchange {
    int status;
    uint8_t *data;
    size_t n;
    struct err error;
};

static void keep_response(void *context, struct net_answer *answer)
{
    struct exchange *x = context;
    x->status = answer->status;
    x->error = answer->error;
    x->n = answer->n;
    x->data = answer->data;
    answer->data = NULL;
}

// Sets e to the first line of ClickHouse's answer, without control characters.
static int set_refused_error(struct clickhouse *c, const struct exchange *x, struct err *e)
{
    char text[320];
    size_t n = 0;
    for (size_t i = 0; i < x->n && n < sizeof text - 1 && x->data[i] != '\n'; i++)
        text[n++] = isprint(x->data[i]) ? (char)x->data[i] : ' ';
    text[n] = 0;
    err_set(e, "ClickHouse at %s returned %d: %s", c->at.base, x->status, n ? text : "no message");
    return STORE_FAILED;
}

// The timeout of a request: at most the rest of the budget, if there is one.
static int64_t request_time_left(const struct budget *budget, int64_t ms)
{
    if (!budget || !budget->deadline)
        return ms;
    int64_t left = (budget->deadline - budget_now()) / 1000000;
    return left < 1 ? 1 : left < ms ? left : ms;
}

bool clickhouse_has_stopped(struct clickhouse *c)
{
    int64_t at = atomic_load(&c->stop_at);
    return at && budget_now() >= at;
}

// budget may be NULL. When it ends, the query is abandoned here, and ClickHouse stops it after its
// max_execution_time. once: it must not be sent twice.
static int run_exchange(struct clickhouse *c, const char *url, struct str body, int64_t ms,
                        bool once, struct budget *budget, struct exchange *x, struct err *e)
{
    static const char *const headers[] = {"Expect:", "Content-Type: application/octet-stream",
                                          NULL};
    *x = (struct exchange){0};
    struct clickhouse_client *client = client_take(c, e);
    if (!client)
        return STORE_FAILED;
    struct net_request r = {.url = url,
                            .headers = headers,
                            .body = body.p,
                            .n_body = body.n,
                            .user = c->at.user,
                            .password = c->at.password,
                            .ca_file = c->at.ca_file,
                            // The budget ends it first, and says why.
                            .timeout_ms = request_time_left(budget, ms) + (budget ? 1000 : 0),
                            .connect_timeout_ms = CONNECT_MS,
                            .once = once,
                            .limit = ANSWER_MAX,
                            .budget = budget};
    int code = net_client_begin(client->net, &r, keep_response, x, e) ? STORE_FAILED : 0;
    bool late = false, stopped = false;
    budget_rest(budget);
    while (!code && !late && !stopped && net_client_wait(client->net, 50) > 0) {
        late = budget && budget_check(budget) != BUDGET_OK;
        stopped = clickhouse_has_stopped(c);
    }
    if (late || stopped) {
        net_client_free(client->net);
        free(client);
    } else {
        client_give(c, client);
    }
    if (budget && !code && !x->status)
        late |= budget_check(budget) != BUDGET_OK || budget->failed == BUDGET_NO_MEMORY;
    if (late) {
        budget_explain(budget, e);
        code = STORE_BUSY;
    } else if (stopped) {
        err_set(e, "ClickHouse at %s: the server stopped before the response arrived", c->at.base);
        code = STORE_BUSY;
    } else if (!code && !x->status) {
        err_set(e, "ClickHouse at %s: %s", c->at.base, x->error.message);
        code = STORE_FULL;
    } else if (!code && x->status != 200) {
        code = set_refused_error(c, x, e);
    }
    if (code) {
        free(x->data);
        x->data = NULL;
    }
    return code;
}

int clickhouse_query(struct clickhouse *c, struct str sql, struct arena *arena, struct unpack *rows,
                     struct err *e)
{
    char url[1024];
    struct exchange x;
    // wait_end_of_query: errors arrive as a status, not in the middle of the rows. The size limits
    // allow long lists of ids.
    struct budget *budget = arena ? arena_budget(arena) : NULL;
    if (budget && budget_check(budget) != BUDGET_OK) {
        budget_explain(budget, e);
        return STORE_BUSY;
    }
    int n = snprintf(url, sizeof url,
                     "%s/?wait_end_of_query=1&max_query_size=%d&max_ast_elements=50000000"
                     "&max_expanded_ast_elements=50000000",
                     c->at.base, STATEMENT_MAX);
    if (budget)
        snprintf(url + n, sizeof url - (size_t)n, "&max_execution_time=%lld",
                 (long long)(request_time_left(budget, c->ask_nanos / 1000000) / 1000 + 1));
    int code = run_exchange(c, url, sql, c->ask_nanos / 1000000, false, budget, &x, e);
    struct arena_trap trap;
    if (code || !arena) {
        free(x.data);
        return code;
    }
    if (ARENA_TRY(arena, trap)) {
        free(x.data);
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    uint8_t *copy = arena_array(arena, x.n + 1, 1);
    if (x.n)
        memcpy(copy, x.data, x.n);
    *rows = (struct unpack){copy, copy + x.n, false};
    arena_try_end(arena);
    free(x.data);
    return 0;
}

int clickhouse_rows_end(struct clickhouse *c, const struct unpack *rows, int code, struct err *e)
{
    if (code || !rows->bad)
        return code;
    err_set(e, "ClickHouse at %s: invalid or incomplete response", c->at.base);
    return STORE_FAILED;
}

int clickhouse_run(struct clickhouse *c, struct err *e, const char *format, ...)
{
    char *sql;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&sql, format, args);
    va_end(args);
    if (n < 0)
        return err_set(e, "no memory for a statement");
    int code = clickhouse_query(c, (struct str){sql, (size_t)n}, NULL, NULL, e);
    free(sql);
    return code;
}

int clickhouse_number(struct clickhouse *c, struct str sql, struct budget *budget, uint64_t *n,
                      struct err *e)
{
    struct arena *arena = arena_new_in(budget, 0);
    struct unpack rows;
    *n = 0;
    int code = arena ? clickhouse_query(c, sql, arena, &rows, e) : err_set(e, "no memory");
    if (!code) {
        *n = row_u64(&rows);
        code = clickhouse_rows_end(c, &rows, code, e);
    }
    arena_free(arena);
    return code;
}

int clickhouse_insert(struct clickhouse *c, const char *table, const char *id, struct str rows,
                      struct err *e)
{
    char url[1024];
    struct exchange x;
    // A batch may have more days than later versions allow by default.
    snprintf(url, sizeof url,
             "%s/?%s%s%sinsert_distributed_sync=1%s%s&query=INSERT%%20INTO%%20%s.%s"
             "%%20FORMAT%%20RowBinary",
             c->at.base, *id ? "query_id=" : "", id, *id ? "&" : "",
             c->version >= 20000 ? "&max_partitions_per_insert_block=0" : "",
             c->version >= 22000 ? "&async_insert=0" : "", c->at.database, table);
    int code = run_exchange(c, url, rows, INSERT_MS, true, NULL, &x, e);
    free(x.data);
    if (code)
        err_prefix(e, "rows for %s: ", table);
    return code;
}
