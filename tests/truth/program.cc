// Spends known shares of its CPU time in functions of all kinds, over several threads, and
// prints what it spent: a line `function seconds` for each, then `thread tid seconds`.
//
// usage: program PLUGIN SECONDS    of CPU time in all
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "burn.h"

extern "C" double shared_work(double seconds);
static double (*plugin_work)(double seconds);

namespace truth
{

__attribute__((noipa)) double plain(double seconds)
{
    BURN(seconds);
    return seconds;
}

__attribute__((noipa)) double recurse(double seconds, int depth)
{
    if (depth == 0)
        BURN(seconds);
    else
        seconds += recurse(seconds, depth - 1) * 1e-9;
    return seconds;
}

__attribute__((noipa)) double tail_target(double seconds)
{
    BURN(seconds);
    return seconds;
}

// Jumps: while its callee runs, nothing is left of it.
__attribute__((noipa)) double tail_caller(double seconds)
{
    return tail_target(seconds);
}

__attribute__((always_inline)) inline void inline_leaf(double seconds)
{
    BURN(seconds);
}

__attribute__((always_inline)) inline void inline_middle(double seconds)
{
    inline_leaf(seconds);
}

__attribute__((noipa)) double inlining(double seconds)
{
    inline_middle(seconds);
    return seconds;
}

template <class T> struct worker {
    __attribute__((noipa)) T method(T seconds)
    {
        BURN(seconds);
        return seconds;
    }
};

enum { KINDS = 7 };
const char *const names[KINDS] = {"plain",       "recurse",     "tail_target", "inlining",
                                  "shared_work", "plugin_work", "worker"};
const double shares[KINDS] = {0.25, 0.15, 0.10, 0.20, 0.12, 0.08, 0.10};

// One call a line: the lines of the callers are looked at.
__attribute__((noipa)) double dispatch(int kind, double seconds)
{
    double spent = 0;
    switch (kind) {
    case 0:
        spent = plain(seconds);
        break;
    case 1:
        spent = recurse(seconds, 20);
        break;
    case 2:
        spent = tail_caller(seconds);
        break;
    case 3:
        spent = inlining(seconds);
        break;
    case 4:
        spent = shared_work(seconds);
        break;
    case 5:
        spent = plugin_work(seconds);
        break;
    default:
        spent = worker<double>().method(seconds);
    }
    return spent + 1;
}

struct thread {
    double share, seconds, spent[KINDS], all;
    int tid;
};

void *run(void *context)
{
    thread *t = static_cast<thread *>(context);
    t->tid = gettid();
    unsigned seed = static_cast<unsigned>(t->share * 1000);
    // Rounds of uneven length: nothing may keep step with a timer.
    while (t->all < t->seconds) {
        double round = 0.002 + 0.018 * (rand_r(&seed) % 1000) / 1000;
        for (int kind = 0; kind < KINDS; kind++) {
            double before = thread_seconds();
            dispatch(kind, round * shares[kind]);
            t->spent[kind] += thread_seconds() - before;
        }
        t->all = thread_seconds();
    }
    return nullptr;
}

} // namespace truth

int main(int argc, char **argv)
{
    void *plugin = argc == 3 ? dlopen(argv[1], RTLD_NOW) : nullptr;
    if (!plugin) {
        std::fprintf(stderr, "usage: program PLUGIN SECONDS\n");
        return 2;
    }
    usleep(200000); // a profiler may take a moment to see what was loaded
    plugin_work = reinterpret_cast<double (*)(double)>(dlsym(plugin, "plugin_work"));
    truth::thread threads[3] = {{0.5, 0, {}, 0, 0}, {0.3, 0, {}, 0, 0}, {0.2, 0, {}, 0, 0}};
    pthread_t ids[3];
    for (int i = 0; i < 3; i++) {
        threads[i].seconds = threads[i].share * std::atof(argv[2]);
        pthread_create(&ids[i], nullptr, truth::run, &threads[i]);
    }
    for (pthread_t id : ids)
        pthread_join(id, nullptr);
    for (int kind = 0; kind < truth::KINDS; kind++) {
        double spent = 0;
        for (const truth::thread &t : threads)
            spent += t.spent[kind];
        std::printf("%s %.6f\n", truth::names[kind], spent);
    }
    for (const truth::thread &t : threads)
        std::printf("thread %d %.6f\n", t.tid, t.all);
    return 0;
}
