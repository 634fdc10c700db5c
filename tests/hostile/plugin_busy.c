// A library whose function should have a name in the profile.
static volatile unsigned long sink;

void work_in_library(void)
{
    for (unsigned long i = 0; i < 4000000; i++)
        sink += i * i;
}
