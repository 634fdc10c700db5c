// Calls a function on another stack, where the present one may have no room for it.
#pragma once

// top: the upper end of the stack, a multiple of 16. A handler of the program's that interrupts the
// function runs there, too: block signals. Signal-safe.
void other_stack_call(char *top, void (*function)(void *context), void *context);
