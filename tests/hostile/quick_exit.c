// Ends by quick_exit, which runs neither destructors nor atexit handlers: no profile was written.
#include "hostile.h"

static void on_quick_exit(void)
{
    say("at_quick_exit ran\n");
}

static void on_exit_of_process(void)
{
    say("atexit ran\n");
}

int main(void)
{
    hostile_begin();
    atexit(on_exit_of_process);
    at_quick_exit(on_quick_exit);
    burn(0.1);
    quick_exit(6);
}
