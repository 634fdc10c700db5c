#include "agent/preload/preload_environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/preload/preload.h"
#include "process/call.h"
#include "process/process.h"
#include "process/sandbox.h"

enum { MOST_SAVED = 32, SAVED_BYTES = 32 << 10 };

// Variables that the library reads or `kiln run` sets. Others (tokens, certificates) belong to the
// user and are not removed.
static const char *const kiln_variables[] = {
    "KILN_OUTPUT", "KILN_RUN",           "KILN_FREQUENCY", "KILN_DEPTH", "KILN_CLOCK",
    "KILN_FOLLOW", "KILN_LISTEN",        "KILN_TELL",      "KILN_HEAP",  "KILN_HEAP_INTERVAL",
    "KILN_PUSH",   "KILN_HEAP_OUTPUT",   "KILN_HEAP_SEED", "KILN_APP",   "KILN_TAGS",
    "KILN_WALL",   "KILN_PUSH_INTERVAL",
};

static struct {
    bool active;
    pid_t owner_pid;
    char text[SAVED_BYTES];
    size_t used;
    char *variables[MOST_SAVED]; // pointers into text
    size_t n;
    char *libraries; // our libraries in LD_PRELOAD format, in text; NULL: none
    char owner[48];  // KILN_FOLLOW=owner:PID
} saved;

static size_t name_length(const char *assignment)
{
    return strcspn(assignment, "=");
}

static bool is_named(const char *assignment, const char *name)
{
    size_t n = strlen(name);
    return strncmp(assignment, name, n) == 0 && assignment[n] == '=';
}

static bool is_kiln_variable(const char *assignment)
{
    for (size_t i = 0; i < sizeof kiln_variables / sizeof *kiln_variables; i++)
        if (is_named(assignment, kiln_variables[i]))
            return true;
    return false;
}

// --- ownership ---

bool environment_follows(void)
{
    const char *follow = process_getenv("KILN_FOLLOW");
    return follow && (*follow == '1' || strncmp(follow, "owner:", 6) == 0);
}

bool environment_is_child(void)
{
    const char *follow = process_getenv("KILN_FOLLOW");
    return follow && strncmp(follow, "owner:", 6) == 0 &&
           strtol(follow + 6, NULL, 10) != (long)getpid();
}

// --- libraries ---

static bool is_own_library(const char *path, size_t n)
{
    static const char *const names[] = {"libkiln.so", "libkiln_malloc.so"};
    const char *base = path + n;
    while (base > path && base[-1] != '/')
        base--;
    size_t n_base = n - (size_t)(base - path);
    for (size_t i = 0; i < 2; i++) {
        size_t n_name = strlen(names[i]);
        // Also matches libkiln.so.0 and the like.
        if (n_base >= n_name && memcmp(base, names[i], n_name) == 0 &&
            (n_base == n_name || base[n_name] == '.'))
            return true;
    }
    return false;
}

// Copies those entries of a library list that are ours, or those that are not. Returns the length.
static size_t copy_libraries(char *to, const char *list, bool own)
{
    size_t n = 0;
    for (const char *p = list; *p;) {
        size_t length = strcspn(p, ": ");
        if (length && is_own_library(p, length) == own) {
            if (n)
                to[n++] = ':';
            memcpy(to + n, p, length);
            n += length;
        }
        p += length + (p[length] != '\0');
    }
    to[n] = '\0';
    return n;
}

bool environment_drop_libraries(const char *assignment, char *rest)
{
    static const char name[] = "LD_PRELOAD=";
    if (strncmp(assignment, name, sizeof name - 1) != 0)
        return false;
    memcpy(rest, name, sizeof name - 1);
    if (copy_libraries(rest + sizeof name - 1, assignment + sizeof name - 1, false) == 0)
        rest[0] = '\0';
    return true;
}

// --- claiming ---

static char *save_text(const char *text)
{
    size_t n = strlen(text) + 1;
    if (n > sizeof saved.text - saved.used)
        return NULL;
    char *to = saved.text + saved.used;
    memcpy(to, text, n);
    saved.used += n;
    return to;
}

static void save_variables(char **envp)
{
    for (; *envp; envp++) {
        if (is_kiln_variable(*envp) && saved.n < MOST_SAVED) {
            char *copy = save_text(*envp);
            if (copy)
                saved.variables[saved.n++] = copy;
        } else if (is_named(*envp, "LD_PRELOAD") && !saved.libraries) {
            const char *list = *envp + sizeof "LD_PRELOAD=" - 1;
            if (strlen(list) + 1 > sizeof saved.text - saved.used)
                continue;
            char *to = saved.text + saved.used;
            size_t n = copy_libraries(to, list, true);
            if (n == 0)
                continue;
            saved.libraries = to;
            saved.used += n + 1;
        }
    }
}

// A runtime may pass the process's original strings (/proc/self/environ) to a child, so the name is
// changed there as well: "KILN_OUTPUT=x" becomes "kiln_output=x".
static void lowercase_original_name(char *assignment)
{
    uintptr_t at = (uintptr_t)assignment, end = (uintptr_t)getauxval(AT_EXECFN);
    uintptr_t begin = (uintptr_t)__builtin_frame_address(0);
    if (at < begin || at >= end) // not on the main thread's stack, so it may not be writable
        return;
    for (char *p = assignment; *p != '='; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
}

// Removes our variables and libraries from the array in place. Does not change the remaining
// strings, because the program may hold pointers to them. Clears the rest of the array: Go searches
// for the auxiliary vector behind it, and if it finds none, reads /proc.
static void remove_kiln_variables(char **envp)
{
    char **to = envp, **from = envp;
    for (; *from; from++) {
        size_t n = strlen(*from);
        if (is_kiln_variable(*from))
            continue;
        if (is_named(*from, "LD_PRELOAD") && n < sizeof saved.text - saved.used) {
            char *rest = saved.text + saved.used;
            environment_drop_libraries(*from, rest);
            if (!*rest)
                continue;
            saved.used += strlen(rest) + 1;
            *to++ = rest;
            continue;
        }
        *to++ = *from;
    }
    while (to < from)
        *to++ = NULL;
}

// Children learn the owner from the variable that makes them profile in the first place. It is
// changed in the array itself, because a runtime may pass on the original environment.
static void name_owner(char **envp)
{
    for (; *envp; envp++)
        if (strcmp(*envp, "KILN_FOLLOW=1") == 0)
            *envp = saved.owner;
}

void environment_claim(char **envp)
{
    char **now = environ;
    if (saved.active || !now)
        return;
    if (environment_follows()) {
        snprintf(saved.owner, sizeof saved.owner, "KILN_FOLLOW=owner:%d", (int)getpid());
        name_owner(now);
        if (envp && envp != now)
            name_owner(envp);
        return;
    }
    char *consumed[MOST_SAVED];
    size_t n = 0;
    saved.active = true;
    saved.owner_pid = getpid();
    save_variables(now);
    for (char **p = envp; p && *p && n < MOST_SAVED; p++)
        if (is_kiln_variable(*p))
            consumed[n++] = *p;
    remove_kiln_variables(now);
    if (envp && envp != now)
        remove_kiln_variables(envp);
    while (n)
        lowercase_original_name(consumed[--n]);
}

// --- exec by the owner ---

void environment_disown(void)
{
    saved.owner_pid = 0;
}

bool environment_is_owned(void)
{
    return saved.active && saved.libraries && saved.owner_pid == getpid();
}

enum { PAGE = 4096 };

// *page caches the last page that was readable.
static bool is_byte_readable(const void *at, uintptr_t *page)
{
    uintptr_t its = (uintptr_t)at & ~(uintptr_t)(PAGE - 1);
    if (its == *page || !process_page_readable(its))
        return its == *page;
    *page = its;
    return true;
}

static bool is_text_readable(const char *text, uintptr_t *page)
{
    for (const char *p = text; is_byte_readable(p, page);) {
        size_t left = PAGE - (uintptr_t)p % PAGE;
        if (memchr(p, 0, left))
            return true;
        p += left;
    }
    return false;
}

bool environment_is_readable(const char *path, char *const envp[])
{
    uintptr_t page = 0, array = 0; // caches for texts and for the array
    // In these cases we do not read them.
    if (!preload_is_active() || sandbox_confines_caller())
        return true;
    if (path && !is_text_readable(path, &page))
        return false;
    for (; envp; envp++) {
        if ((uintptr_t)envp % sizeof *envp || !is_byte_readable(envp, &array))
            return false;
        if (!*envp)
            return true;
        if (!is_text_readable(*envp, &page))
            return false;
    }
    return true;
}

static size_t length_of(char *const envp[], size_t *preload_bytes)
{
    size_t n = 0;
    *preload_bytes = 0;
    for (; envp && envp[n]; n++)
        if (is_named(envp[n], "LD_PRELOAD"))
            *preload_bytes += strlen(envp[n]);
    return n;
}

static bool is_replaced(const char *assignment)
{
    size_t n = name_length(assignment);
    for (size_t i = 0; i < saved.n; i++)
        if (name_length(saved.variables[i]) == n && memcmp(saved.variables[i], assignment, n) == 0)
            return true;
    return false;
}

// Signal-safe, as exec must be. Returns the end of the text.
static char *append_text(char *to, const char *text)
{
    size_t n = strlen(text);
    memcpy(to, text, n + 1);
    return to + n;
}

// False where the loader of the new program would not find it: after chroot, in another mount
// namespace or as another user.
static bool is_in_reach(const char *path)
{
    if (!strchr(path, '/') || strchr(path, '$')) // the loader searches, or expands it
        return true;
    long fd = process_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd >= 0)
        process_call(SYS_close, fd, 0, 0, 0, 0, 0);
    return fd >= 0 || fd == -EMFILE || fd == -ENFILE;
}

// The loader complains about libraries that it does not find. list is changed meanwhile.
static bool are_in_reach(char *list)
{
    bool all = true;
    for (char *p = list; *p && all;) {
        char *end = p + strcspn(p, ":"), separator = *end;
        *end = '\0';
        all = is_in_reach(p);
        *end = separator;
        p = end + (separator != '\0');
    }
    return all;
}

struct environment_block environment_for_exec(char *const envp[])
{
    struct environment_block block = {NULL, 0};
    if (!environment_is_owned())
        return block;
    size_t others, n = length_of(envp, &others), n_own = 0;
    size_t pointers = (n + saved.n + 2) * sizeof(char *);
    size_t bytes = pointers + others + strlen(saved.libraries) + 32;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return block;
    block = (struct environment_block){p, bytes};
    char *preload = (char *)p + pointers, *end = append_text(preload, "LD_PRELOAD=");
    char *libraries = end;
    end = append_text(end, saved.libraries);
    if (!are_in_reach(libraries)) {
        environment_release(&block);
        return (struct environment_block){NULL, 0};
    }
    for (size_t i = 0; i < n; i++) {
        if (is_named(envp[i], "LD_PRELOAD") && envp[i][sizeof "LD_PRELOAD=" - 1])
            end = append_text(append_text(end, ":"), envp[i] + sizeof "LD_PRELOAD=" - 1);
        else if (!is_named(envp[i], "LD_PRELOAD") && !is_replaced(envp[i]))
            block.p[n_own++] = envp[i];
    }
    for (size_t i = 0; i < saved.n; i++)
        block.p[n_own++] = saved.variables[i];
    block.p[n_own++] = preload;
    block.p[n_own] = NULL;
    return block;
}

void environment_release(const struct environment_block *block)
{
    if (block->p)
        munmap(block->p, block->mapped);
}
