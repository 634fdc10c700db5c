static inline int part_step(int sum, int x)
{
    return sum / 3 + x % 1000;
}

static int part_sum(const int *x, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum = part_step(sum, x[i]);
    return sum;
}
