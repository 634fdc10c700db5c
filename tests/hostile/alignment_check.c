// Works with the alignment check of the processor on, which the kernel leaves on in handlers.
#include "hostile.h"

int main(void)
{
    hostile_begin();
    burn(0.02);
    __asm__ volatile("pushfq; orq $0x40000, (%%rsp); popfq" ::: "memory", "cc");
    spin(150000000);
    __asm__ volatile("pushfq; andq $~0x40000, (%%rsp); popfq" ::: "memory", "cc");
    say("done\n");
    return 0;
}
