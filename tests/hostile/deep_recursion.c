// Recursion to a depth of 100 MB of stack, again and again, and returns to the top.
#include "hostile.h"

#include <pthread.h>

static volatile int sink;

static __attribute__((noinline)) int descend(long n)
{
    volatile char bytes[1000];
    bytes[n % 1000] = 1;
    int below = n > 0 ? descend(n - 1) : 0;
    sink += bytes[n % 1000];
    return below + 1;
}

static void *work(void *context)
{
    bool good = true;
    for (int i = 0; i < 4; i++)
        good = descend(95000) == 95001 && good;
    *(bool *)context = good;
    return NULL;
}

int main(void)
{
    hostile_begin();
    bool good = false;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 110 << 20);
    require(pthread_create(&thread, &attributes, work, &good) == 0, "pthread_create");
    pthread_join(thread, NULL);
    fact("it came back every time", good);
    return 0;
}
