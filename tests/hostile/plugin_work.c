// A plugin that computes in its constructor and destructor, so that samples meet code that is just
// being mapped or about to be unmapped.
static volatile unsigned long sink;

static void work(void)
{
    for (unsigned long i = 0; i < 2000000; i++)
        sink += i * i;
}

__attribute__((constructor)) static void begin(void)
{
    work();
}

__attribute__((destructor)) static void end(void)
{
    work();
}
