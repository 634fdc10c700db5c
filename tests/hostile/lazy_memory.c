// Memory that is filled on demand (userfaultfd) by the very thread that uses it, later. Code
// without unwind information keeps a pointer to it in the frame pointer. Whoever follows that
// pointer waits for a page that nobody provides.
#include "confine.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum { BYTES = 1 << 20 };

// The function that is interrupted has no frame, and its caller's frame pointer is no such thing.
#ifdef __x86_64__
__asm__(".text\n"
        ".type count_down, @function\n"
        "count_down:\n"
        "    dec %rdi\n"
        "    jnz count_down\n"
        "    ret\n"
        ".size count_down, . - count_down\n"
        ".type call_without_cfi, @function\n"
        "call_without_cfi:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    sub $72, %rsp\n"
        "    mov %rsi, %rbp\n"
        "    call count_down\n"
        "    add $72, %rsp\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size call_without_cfi, . - call_without_cfi\n");
void call_without_cfi(unsigned long rounds, void *elsewhere);
#else
#define call_without_cfi spin_without_cfi
#endif

int main(void)
{
    hostile_begin();
    burn(0.05);
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {{(uintptr_t)memory, BYTES}, UFFDIO_REGISTER_MODE_MISSING, 0};
    require(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0, "userfaultfd");
    require(ioctl(fd, UFFDIO_REGISTER, &range) == 0, "UFFDIO_REGISTER");
    call_without_cfi(600000000, memory + BYTES / 2);
    struct uffd_msg message;
    fact("nobody touched the memory", read(fd, &message, sizeof message) < 0);
    return 0;
}
