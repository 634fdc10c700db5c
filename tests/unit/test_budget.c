#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

// A charge counts for all parents; one without room leaves nothing behind.
static void accounts_charge_their_parents(void **state)
{
    struct budget_account server = {.owner = "the server", .limit = 1000};
    struct budget_account tenant = {.owner = "tenant a", .limit = 600, .parent = &server};
    struct budget_account request = {.owner = "this request", .parent = &tenant};
    assert_null(budget_charge(&request, 500));
    assert_ptr_equal(budget_charge(&request, 101), &tenant);
    assert_int_equal(request.held, 500);
    assert_int_equal(tenant.held, 500);
    assert_int_equal(server.held, 500);
    assert_null(budget_charge(&server, 450));
    assert_ptr_equal(budget_charge(&request, 60), &server);
    assert_ptr_equal(budget_charge(&request, SIZE_MAX - 100), &tenant);
    budget_release(&request, 500);
    assert_int_equal(server.held, 450);
    assert_int_equal(tenant.held, 0);
    assert_int_equal(tenant.peak, 500);
    assert_int_equal(server.peak, 950);
}

// Accounts that take what they can leave something to the next one.
static void accounts_leave_memory_to_others(void **state)
{
    struct budget_account server = {.owner = "the server", .limit = 1000000};
    struct budget_account tenants[5];
    for (int i = 0; i < 5; i++) {
        size_t held = 0;
        tenants[i] = (struct budget_account){
            .owner = "a tenant", .limit = 750000, .parent = &server, .times_left = 3};
        while (!budget_charge(&tenants[i], 100))
            held += 100;
        assert_ptr_equal(budget_charge(&tenants[i], 100), &tenants[i]);
        assert_int_equal(tenants[i].held, held);
        assert_true(held >= (i ? 1000 : 749000));
        assert_true(server.limit - server.held >= 900);
    }
    // Also without an order: one that is small may still grow.
    budget_release(&tenants[0], 500000);
    assert_null(budget_charge(&tenants[1], 200000));
    assert_ptr_equal(budget_charge(&server, SIZE_MAX / 2), &server);
}

static void arenas_charge_and_release(void **state)
{
    struct budget_account server = {.owner = "the server", .limit = 64 << 20};
    struct budget b = {.account = {.owner = "this request", .parent = &server}};
    struct arena *a = arena_new_in(&b, 0);
    assert_ptr_equal(arena_budget(a), &b);
    char *p = arena_alloc(a, 8 << 20);
    p = arena_grow(a, p, 8 << 20, 16 << 20);
    arena_alloc(a, 100);
    assert_int_equal(server.held, arena_size(a));
    assert_true(server.held > 16 << 20);
    struct arena_trap trap;
    struct err e = {""};
    if (ARENA_TRY(a, trap)) {
        arena_caught(a, &e);
        assert_int_equal(b.failed, BUDGET_NO_MEMORY);
        assert_non_null(strstr(e.message, "the server"));
    } else {
        arena_alloc(a, 60 << 20);
        fail();
    }
    arena_free(a);
    assert_int_equal(server.held, 0);
    assert_int_equal(b.account.held, 0);
}

static void deadlines_and_cancellation_jump(void **state)
{
    struct budget late = {.deadline = budget_now() - 1};
    struct budget cancelled = {.cancelled = true};
    struct budget fine = {.deadline = budget_now() + INT64_C(3600000000000)};
    struct {
        struct budget *b;
        enum budget_state want;
    } cases[] = {{&late, BUDGET_LATE}, {&cancelled, BUDGET_CANCELLED}, {&fine, BUDGET_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena *a = arena_new_in(cases[i].b, 0);
        struct arena_trap trap;
        volatile bool jumped = false;
        if (ARENA_TRY(a, trap)) {
            jumped = true;
        } else {
            arena_check(a);
            arena_try_end(a);
        }
        assert_int_equal(jumped, cases[i].want != BUDGET_OK);
        assert_int_equal(cases[i].b->failed, cases[i].want);
        arena_free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accounts_charge_their_parents),
        cmocka_unit_test(accounts_leave_memory_to_others),
        cmocka_unit_test(arenas_charge_and_release),
        cmocka_unit_test(deadlines_and_cancellation_jump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
