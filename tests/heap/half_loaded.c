// Calls a plugin that kiln first met while it was half loaded: its code was mapped, but the loader
// did not list it yet. dlopen is in that state for a few microseconds; here it lasts until kiln has
// looked. usage: half_loaded PLUGIN OTHER
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct code {
    uintptr_t base, start, end, object_end; // of the code, and of the whole object
    off_t offset;
};

static int find_code(struct dl_phdr_info *info, size_t size, void *context)
{
    struct code *code = context;
    for (int i = 0; info->dlpi_addr == code->base && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type == PT_LOAD)
            code->object_end = (code->base + ph->p_vaddr + ph->p_memsz + 4095) & ~4095ul;
        if (ph->p_type == PT_LOAD && ph->p_flags & PF_X) {
            code->start = code->base + (ph->p_vaddr & ~4095ul);
            code->end = (code->base + ph->p_vaddr + ph->p_memsz + 4095) & ~4095ul;
            code->offset = (off_t)(ph->p_offset & ~4095ul);
        }
    }
    return 0;
}

static void *load(const char *path, struct code *code)
{
    void *plugin = dlopen(path, RTLD_NOW);
    if (!plugin)
        return NULL;
    code->base = ((struct link_map *)plugin)->l_addr;
    dl_iterate_phdr(find_code, code);
    return plugin;
}

int main(int argc, char **argv)
{
    struct code code = {0}, again = {0};
    void *plugin = load(argv[1], &code);
    if (!plugin)
        return 1;
    dlclose(plugin);
    int fd = open(argv[1], O_RDONLY);
    // Nothing else may take the place.
    size_t size = code.object_end - code.base;
    mmap((void *)code.base, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    void *half = mmap((void *)code.start, code.end - code.start, PROT_READ | PROT_EXEC,
                      MAP_PRIVATE | MAP_FIXED, fd, code.offset);
    if (half != (void *)code.start || !dlopen(argv[2], RTLD_NOW)) // makes kiln look again
        return 2;
    usleep(700000);
    munmap((void *)code.base, size);
    plugin = load(argv[1], &again);
    void (*fill)(void) = plugin ? (void (*)(void))dlsym(plugin, "fill") : NULL;
    if (!fill)
        return 3;
    if (again.start == code.start)
        fill();
    else
        puts("loaded elsewhere");
    return 0;
}
