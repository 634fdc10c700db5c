// Ten million objects that live at once, and far more samples than there is room for: memory stays
// under its bound, what is left out is told, and when all is freed nothing is in use.
#include "heap_test.h"

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * 4;
}

int main(void)
{
    enum { MANY = 10000000, SIZE = 64, BOUND_KIB = 24 * 1024 + 26 * 1024 };
    struct kiln_heap_options options = {sizeof options, SIZE, 0, 0, 7};
    CHECK(kiln_heap_start(&options, &error) == 0);
    long before = resident_kib();
    for (long i = 0; i < MANY; i++)
        kiln_heap_note_allocated((char *)0x100000000 + i * SIZE, SIZE);
    long grown = resident_kib() - before;
    long long v[4];
    sums(-1, v);
    CHECK(grown < BOUND_KIB);
    CHECK(v[0] > MANY / 100 * 98 && v[0] < MANY / 100 * 102);
    const char *text = text_of(-1, KILN_JSON), *told = strstr(text, "tables full: ");
    CHECK(told);
    long untracked = told ? strtol(told + strlen("tables full: "), NULL, 10) : 0;
    CHECK(untracked > 0);
    CHECK(v[2] > 0 && v[2] < v[0]);
    for (uintptr_t i = 0; i < 4096; i++)
        kiln_heap_note_freed((void *)i); // NULL above all
    long long same[4];
    sums(-1, same);
    CHECK(memcmp(same, v, sizeof v) == 0);
    for (long i = 0; i < MANY; i++)
        kiln_heap_note_freed((char *)0x100000000 + i * SIZE);
    long long after[4];
    sums(-1, after);
    CHECK(after[2] == 0 && after[3] == 0);
    printf(
        "many: %d live objects of %d bytes sampled every %d bytes: %ld KiB, %lld objects tracked, "
        "%ld samples not\n",
        MANY, SIZE, SIZE, grown, v[2], untracked);
    return wrong;
}
