// The server's log: lines, and a reader that does not read.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <unistd.h>

#include "server/server.h"

static int ends[2], before;

static void begin_log(void)
{
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    before = dup(STDERR_FILENO);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
}

static void end_log(void)
{
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[0]);
    close(ends[1]);
}

static size_t read_log(char *text, size_t size)
{
    size_t n = 0;
    for (ssize_t got; n < size - 1 && (got = read(ends[0], text + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    return n;
}

static void values_are_escaped(void **state)
{
    char text[8192], large[6000];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    begin_log();
    server_log("info", "a b", "plain", "c", "empty", "", "escape", "\x1b[2J", "quote", "d\"e",
               NULL);
    server_log("info", "large", "value", large, NULL);
    size_t n = read_log(text, sizeof text);
    end_log();
    assert_non_null(strstr(text, " level=info msg=\"a b\" plain=c empty=\"\" escape=\"\\x1b[2J\" "
                                 "quote=\"d\\\"e\"\n"));
    assert_non_null(strstr(text, "msg=large value=\"xxx"));
    assert_true(n < 1500);
}

// Lines are lost, and counted, and nobody waits.
static void nobody_waits_for_a_full_pipe(void **state)
{
    static char text[1 << 20];
    const char *message = "a line of some length, so that the pipe is full before there are many";
    begin_log();
    for (int i = 0; i < 2000; i++)
        server_log("error", message, NULL);
    size_t n = read_log(text, sizeof text);
    assert_true(n > 10000 && text[n - 1] == '\n');
    assert_null(strstr(text, "lost_lines"));
    // Room again, and time for another line.
    for (int i = 0; i < 1000 && !strstr(text, "lost_lines="); i++) {
        usleep(10000);
        server_log("info", "again", NULL);
        read_log(text, sizeof text);
    }
    end_log();
    assert_non_null(strstr(text, "msg=again lost_lines="));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_escaped),
        cmocka_unit_test(nobody_waits_for_a_full_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
