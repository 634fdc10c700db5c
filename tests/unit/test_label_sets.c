#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/collector/label_sets.h"

struct labels {
    uint32_t n;
    char text[2 * AGENT_LABELS][16]; // key=value
};

static void note(void *context, struct str key, struct str value)
{
    struct labels *l = context;
    assert_true(l->n < 2 * AGENT_LABELS);
    snprintf(l->text[l->n++], sizeof l->text[0], "%.*s=%.*s", (int)key.n, key.p, (int)value.n,
             value.p);
}

static void assert_labels(uint32_t set, uint32_t n)
{
    struct labels found = {0};
    agent_label_each(set, note, &found);
    assert_int_equal(found.n, n);
    for (uint32_t i = 0; i < n; i++) {
        char text[16];
        snprintf(text, sizeof text, "k%03u=v", i);
        assert_string_equal(found.text[i], text);
    }
}

static uint64_t count_dropped(void)
{
    struct agent_label_counts counts;
    labels_get_counts(&counts);
    return counts.dropped;
}

static uint32_t full_set(void)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < AGENT_LABELS; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%03u", i);
        set = agent_label_add(set, str_from(key), STR("v"));
    }
    return set;
}

static void a_full_set_stays_as_it_is(void **state)
{
    uint32_t full = full_set();
    uint64_t dropped = count_dropped();
    assert_labels(full, AGENT_LABELS);
    // Before, among and after those there are; twice, since a thread remembers what it made.
    const char *keys[] = {"a", "k010b", "z"};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(agent_label_add(full, str_from(keys[i % 3]), STR("v")), full);
        assert_int_equal(count_dropped(), ++dropped);
        assert_labels(full, AGENT_LABELS);
    }
}

static void a_full_set_can_change(void **state)
{
    uint32_t full = full_set();
    uint64_t dropped = count_dropped();
    struct labels found = {0};
    agent_label_each(agent_label_add(full, STR("k000"), STR("w")), note, &found);
    assert_int_equal(found.n, AGENT_LABELS);
    assert_string_equal(found.text[0], "k000=w");
    uint32_t less = agent_label_remove(full, STR("k063"));
    assert_labels(less, AGENT_LABELS - 1);
    assert_int_equal(agent_label_add(less, STR("k063"), STR("v")), full);
    assert_int_equal(agent_label_remove(full, STR("none")), full);
    assert_int_equal(count_dropped(), dropped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_set_stays_as_it_is),
        cmocka_unit_test(a_full_set_can_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
