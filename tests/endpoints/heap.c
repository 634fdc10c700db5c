// A service that runs on jemalloc and has kiln inside, told what to do on standard input; every
// command is answered by one line.
//   serve        prints where it listens
//   allocate     what tests/endpoints/heap knows of, site by site
//   more         once more of one site
//   activate, deactivate, interval LOG2     by jemalloc's own controls
//   load FILE    a library; its function site() allocates
//   tell         kiln where mallctl is
#include <jemalloc/jemalloc.h>
#include <kiln/kiln.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 100000, LARGE = 64, MIXED = 4000, FREED = 50000, CHAINS = 2000, THREADED = 20000 };

// Sizes that jemalloc does not round up.
static void *kept[SMALL + LARGE + 4 * MIXED + CHAINS + THREADED + 2 * SMALL];
static size_t n_kept;
static void *volatile keep_away; // from the optimizer

static void keep(void *p)
{
    kept[n_kept++] = p;
}

__attribute__((noinline)) void small_site(void)
{
    for (int i = 0; i < SMALL; i++) {
        keep_away = malloc(64);
        if (i % 2)
            keep(keep_away);
        else
            free(keep_away);
    }
}

__attribute__((noinline)) void large_site(void)
{
    for (int i = 0; i < LARGE; i++)
        keep(malloc(262144));
}

__attribute__((noinline)) void mixed_site(void)
{
    for (int i = 0; i < 4 * MIXED; i++)
        keep(calloc(1, 16u << 3 * (i % 4)));
}

__attribute__((noinline)) void freed_site(void)
{
    for (int i = 0; i < FREED; i++) {
        keep_away = malloc(1024);
        free(keep_away);
    }
}

__attribute__((noinline)) void chain_site(void)
{
    for (int i = 0; i < CHAINS; i++) {
        void *p = malloc(128);
        p = realloc(p, 1024);
        keep(realloc(p, 8192));
    }
}

__attribute__((noinline)) void threaded_site(void **to)
{
    for (int i = 0; i < THREADED; i++)
        to[i] = malloc(512);
}

static void *be_a_thread(void *context)
{
    const char *name = "truthful";
    mallctl("thread.prof.name", NULL, NULL, &name, sizeof name);
    threaded_site(context);
    return context;
}

static void fill(void)
{
    static void *threaded[THREADED];
    pthread_t thread;
    small_site();
    large_site();
    mixed_site();
    freed_site();
    chain_site();
    if (pthread_create(&thread, NULL, be_a_thread, threaded) == 0)
        pthread_join(thread, NULL);
    for (int i = 0; i < THREADED; i += 2) {
        free(threaded[i]);
        keep(threaded[i + 1]);
    }
}

static void serve(void)
{
    struct kiln_serve_options options = {sizeof options, "127.0.0.1:0", NULL};
    struct kiln_error error;
    char where[300] = "";
    if (kiln_serve(&options, &error) || kiln_serve_address(where, sizeof where))
        printf("error %s\n", error.message);
    else
        printf("%s\n", where);
}

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    void (*site)(void) = library ? (void (*)(void))dlsym(library, "site") : NULL;
    if (site)
        site();
    printf("%s\n", site ? "done" : dlerror());
}

int main(void)
{
    char line[1024];
    kiln_start(NULL, NULL);
    while (fgets(line, sizeof line, stdin)) {
        char *rest = line;
        char *word = strsep(&rest, " \n"), *first = strsep(&rest, " \n");
        bool on = strcmp(word, "activate") == 0;
        size_t lg = first ? strtoul(first, NULL, 10) : 0;
        if (strcmp(word, "serve") == 0)
            serve();
        else if (strcmp(word, "load") == 0)
            load(first);
        else if (strcmp(word, "allocate") == 0)
            fill(), printf("done\n");
        else if (strcmp(word, "more") == 0)
            small_site(), printf("done\n");
        else if (on || strcmp(word, "deactivate") == 0)
            printf("%d\n", mallctl("prof.active", NULL, NULL, &on, sizeof on));
        else if (strcmp(word, "interval") == 0)
            printf("%d\n", mallctl("prof.reset", NULL, NULL, &lg, sizeof lg));
        else if (strcmp(word, "tell") == 0)
            kiln_set_jemalloc(mallctl), printf("done\n");
        else
            printf("%s?\n", word);
        fflush(stdout);
    }
    kiln_serve_stop();
    kiln_stop();
    return 0;
}
