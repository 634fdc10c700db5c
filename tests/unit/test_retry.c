// Retry-After, backoff, and a fleet of agents in front of a server that refuses: the clock is an
// integer, so that an hour of a thousand agents takes a moment.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/retry.h"

// --- Retry-After ---

static int64_t parse(const char *text, int64_t now)
{
    return retry_after_parse(str_from(text), now);
}

static void retry_after(void **state)
{
    const int64_t then = 784111777; // Sun, 06 Nov 1994 08:49:37 GMT
    assert_int_equal(parse("7", 0), 7);
    assert_int_equal(parse(" 0 ", 0), 0);
    assert_int_equal(parse("86400", 0), RETRY_AFTER_MAX_S);
    assert_int_equal(parse("99999999999999999999999999", 0), RETRY_AFTER_MAX_S);
    assert_int_equal(parse("Sun, 06 Nov 1994 08:49:37 GMT", then - 9), 9);
    assert_int_equal(parse("Sun, 06 Nov 1994 08:49:37 GMT", then), 0);
    assert_int_equal(parse("Sun, 06 Nov 1994 08:49:37 GMT", then + 5), 0);
    assert_int_equal(parse("Sun, 06 Nov 1994 08:49:37 GMT", 0), RETRY_AFTER_MAX_S);
    assert_int_equal(parse("Thu, 29 Feb 2024 00:00:00 GMT", 1709164800 - 60), 60);
    assert_int_equal(parse("Fri, 31 Dec 9999 23:59:60 GMT", then), RETRY_AFTER_MAX_S);
    assert_int_equal(parse("Thu, 01 Jan 1970 00:00:00 GMT", -30), 30);
    static const char *const bad[] = {"",
                                      " ",
                                      "-1",
                                      "+5",
                                      "1.5",
                                      "soon",
                                      "5 s",
                                      "Sun, 06 Nov 1994 08:49:37",
                                      "Sun, 06 Nov 1994 08:49:37 CET",
                                      "Sun, 6 Nov 1994 08:49:37 GMT",
                                      "Sun, 00 Nov 1994 08:49:37 GMT",
                                      "Sun, 06 Foo 1994 08:49:37 GMT",
                                      "Sun, 06 Nov 1994 25:49:37 GMT",
                                      "Sunday, 06-Nov-94 08:49:37 GMT"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (parse(bad[i], 0) != -1)
            fail_msg("\"%s\" is taken for a Retry-After", bad[i]);
}

// --- backoff ---

static void is_bounded_and_spread(void **state)
{
    enum { ROUNDS = 4000, INTERVAL = 10000 };
    uint64_t low = UINT64_MAX, high = 0, sum = 0;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct retry r;
        retry_init(&r, INTERVAL, seed);
        assert_int_equal(retry_taken(&r, true), 0); // nothing went wrong: no waiting
        uint64_t pause = retry_refused(&r, -1);
        low = pause < low ? pause : low;
        high = pause > high ? pause : high;
        sum += pause;
        assert_in_range(pause, 0, INTERVAL);
        assert_in_range(retry_refused(&r, 7), 7000, 7000 + 2 * INTERVAL);
        for (int i = 0; i < 100; i++) {
            assert_in_range(retry_refused(&r, -1), 0, RETRY_LONGEST_MS);
            assert_in_range(retry_no_answer(&r), 0, RETRY_LONGEST_MS);
            assert_in_range(retry_refused(&r, INT64_MAX), RETRY_AFTER_MAX_S * 1000,
                            RETRY_AFTER_MAX_S * 1000 + RETRY_LONGEST_MS);
        }
    }
    // Full jitter: from nearly nothing to nearly all, half of it on average.
    assert_true(low < INTERVAL / 100 && high > INTERVAL - INTERVAL / 100);
    assert_in_range(sum / ROUNDS, INTERVAL * 45 / 100, INTERVAL * 55 / 100);
}

static void what_piled_up_goes_slowly(void **state)
{
    struct retry r;
    retry_init(&r, 10000, 1);
    for (int i = 0; i < 10; i++)
        retry_refused(&r, 1);
    uint64_t pause = 0;
    for (int i = 0; i < 30; i++) {
        pause = retry_taken(&r, true);
        assert_in_range(pause, 3750, 25000);
    }
    assert_in_range(pause, 3750, 6250); // twice as fast as usual
    assert_int_equal(retry_taken(&r, false), 0);
    assert_int_equal(retry_taken(&r, true), 0);
}

// --- a fleet ---

enum { AGENTS = 1000, INTERVAL_MS = 10000, STEP_MS = 10, WINDOWS = 60 };

struct agent {
    struct retry retry;
    uint64_t phase, next;
    unsigned queued;
    uint64_t first_window; // when the oldest that waits ended
};

// Takes `rate` windows a second, keeps `room` of them waiting and refuses the rest.
struct busy_server {
    double waiting, rate, room;
};

struct fleet {
    struct agent agents[AGENTS];
    struct busy_server server;
    struct retry random;
    uint64_t now;
    uint64_t sent, refused, dropped, made;
    uint64_t last_refused;
    unsigned most_at_once; // attempts in one step
};

static struct fleet *fleet_new(double rate)
{
    struct fleet *f = calloc(1, sizeof *f);
    f->server = (struct busy_server){.rate = rate, .room = 200};
    retry_init(&f->random, 1, 99);
    for (uint64_t i = 0; i < AGENTS; i++) {
        retry_init(&f->agents[i].retry, INTERVAL_MS, i);
        f->agents[i].phase = retry_random(&f->agents[i].retry, INTERVAL_MS / 2);
    }
    return f;
}

static bool is_refused(struct fleet *f)
{
    if (f->server.rate > 0 && f->server.waiting + 1 <= f->server.room) {
        f->server.waiting++;
        return false;
    }
    f->refused++;
    f->last_refused = f->now;
    return true;
}

static void agent_step(struct fleet *f, struct agent *a)
{
    if (f->now % INTERVAL_MS == 0) { // windows are aligned to the clock
        f->made++;
        if (a->queued == WINDOWS) {
            f->dropped++;
            a->first_window += INTERVAL_MS;
        } else if (!a->queued++) {
            a->first_window = f->now;
        }
    }
    if (!a->queued || f->now < a->next || f->now < a->first_window + a->phase)
        return;
    if (is_refused(f)) {
        // As the server sends it: 1 to 10 s.
        int64_t after = 1 + (int64_t)retry_random(&f->random, 9);
        a->next = f->now + retry_refused(&a->retry, after);
        return;
    }
    f->sent++;
    a->queued--;
    a->first_window += INTERVAL_MS;
    a->next = f->now + retry_taken(&a->retry, a->queued);
}

static void run_for(struct fleet *f, uint64_t ms)
{
    for (uint64_t end = f->now + ms; f->now < end; f->now += STEP_MS) {
        uint64_t attempts = f->sent + f->refused;
        f->server.waiting -= f->server.rate * STEP_MS / 1000;
        if (f->server.waiting < 0)
            f->server.waiting = 0;
        for (size_t i = 0; i < AGENTS; i++)
            agent_step(f, &f->agents[i]);
        attempts = f->sent + f->refused - attempts;
        if (attempts > f->most_at_once)
            f->most_at_once = (unsigned)attempts;
    }
}

// The server takes nothing for half a minute, then three times what comes on average.
static void storm_ends_within_two_intervals(void **state)
{
    struct fleet *f = fleet_new(3.0 * AGENTS * 1000 / INTERVAL_MS);
    double rate = f->server.rate;
    run_for(f, 60000);
    assert_int_equal(f->refused, 0);
    assert_true(f->most_at_once < AGENTS / 50); // though all windows end at once
    f->server.rate = 0;
    run_for(f, 30000);
    uint64_t during = f->refused, over = f->now;
    f->server.rate = rate;
    f->most_at_once = 0;
    run_for(f, 240000);
    printf("%llu refusals in a stall of 30 s, %llu after it, the last %.1f s after; %u attempts in "
           "%d ms at most\n",
           (unsigned long long)during, (unsigned long long)(f->refused - during),
           f->last_refused > over ? (double)(f->last_refused - over) / 1000 : 0, f->most_at_once,
           STEP_MS);
    assert_true(during <= 4 * AGENTS);
    assert_true(f->last_refused < over + 2 * INTERVAL_MS);
    assert_true(f->most_at_once < AGENTS / 50);
    // Nothing is lost and nobody lags behind.
    assert_int_equal(f->dropped, 0);
    assert_true(f->made - f->sent <= AGENTS);
    free(f);
}

// An hour, of which the server takes only four fifths of the pushes for a quarter: once that was
// 140,200 refusals.
static void a_busy_hour(void **state)
{
    const double load = AGENTS * 1000.0 / INTERVAL_MS;
    struct fleet *f = fleet_new(3 * load);
    run_for(f, 900000);
    f->server.rate = 0.8 * load;
    run_for(f, 900000);
    uint64_t during = f->refused, over = f->now;
    f->server.rate = 3 * load;
    run_for(f, 1800000);
    printf("%llu refusals in a busy quarter, %llu after it, the last %.1f s after; %llu dropped\n",
           (unsigned long long)during, (unsigned long long)(f->refused - during),
           f->last_refused > over ? (double)(f->last_refused - over) / 1000 : 0,
           (unsigned long long)f->dropped);
    assert_true(during < 20000);
    assert_true(f->last_refused < over + 2 * INTERVAL_MS);
    assert_true(f->made - f->sent - f->dropped <= AGENTS);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retry_after),
        cmocka_unit_test(is_bounded_and_spread),
        cmocka_unit_test(what_piled_up_goes_slowly),
        cmocka_unit_test(storm_ends_within_two_intervals),
        cmocka_unit_test(a_busy_hour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
