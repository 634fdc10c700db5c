// Changes its root directory, its user or both in mid-run, as daemons do, with threads around. libc
// signals every thread for setuid; /proc is out of sight afterwards.
#include "hostile.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum { NOBODY = 65534 };

static atomic_int stop, wrong;

static void *work(void *context)
{
    while (!stop)
        burn(0.01);
    wrong += getuid() != (uid_t)(long)context;
    return NULL;
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    bool root = !is(argv[1], "user"), user = !is(argv[1], "root");
    hostile_begin();
    pthread_t threads[2], late;
    for (int i = 0; i < 2; i++)
        require(pthread_create(&threads[i], NULL, work, (void *)(long)(user ? NOBODY : 0)) == 0,
                "pthread_create");
    burn(0.05);
    if (root) {
        mkdir("jail", 0755);
        require(chroot("jail") == 0 && chdir("/") == 0, "chroot");
    }
    if (user)
        require(setgid(NOBODY) == 0 && setuid(NOBODY) == 0, "setuid");
    burn(0.05);
    stop = 1;
    require(pthread_create(&late, NULL, work, (void *)(long)(user ? NOBODY : 0)) == 0,
            "pthread_create");
    pthread_join(late, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    fact("every thread has the right user", wrong == 0);
    return 0;
}
