// The program takes its own ELF headers away, as packers and programs that do not want to be dumped
// do, and runs code that it has generated, so that the profiler looks at what is loaded again. The
// program headers that the loader reports must not be read unchecked.
#include "hostile.h"

#include <elf.h>
#include <sys/auxv.h>
#include <sys/mman.h>

// Large enough to keep the loader's tables, which it needs for every symbol, out of the first page.
__asm__(".pushsection .note.large, \"a\", %note\n"
        ".p2align 2\n"
        ".long 4, 8192, 99\n"
        ".asciz \"pad\"\n"
        ".skip 8192\n"
        ".popsection\n");

// Counts its argument down to 0, without a frame.
#ifdef __x86_64__
static const unsigned char code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3}; // dec; jnz; ret
#else
static const uint32_t code[] = {0xf1000400, 0x54ffffe1, 0xd65f03c0}; // subs; b.ne; ret
#endif

static void run_generated_code(void)
{
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(page != MAP_FAILED, "mmap");
    memcpy(page, code, sizeof code);
    __builtin___clear_cache(page, page + sizeof code);
    require(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0, "mprotect");
    ((void (*)(unsigned long))page)(300000000);
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    burn(0.05);
    char *page = (char *)(getauxval(AT_PHDR) & ~4095ul);
    require(memcmp(page, ELFMAG, SELFMAG) == 0, "the headers' page");
    if (is(argv[1], "unmap"))
        require(munmap(page, 4096) == 0, "munmap");
    else
        require(mprotect(page, 4096, PROT_NONE) == 0, "mprotect");
    for (int i = 0; i < 3; i++)
        run_generated_code();
    say("done\n");
    return 0;
}
