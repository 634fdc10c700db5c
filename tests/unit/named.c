// A library for test_names_cache: twice the same but for its name.
int NAME(int x);

__attribute__((noinline, visibility("default"))) int NAME(int x)
{
    for (int i = 0; i < 100; i++)
        x = x * 31 + i;
    return x;
}
