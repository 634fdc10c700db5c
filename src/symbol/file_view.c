#include "symbol/file_view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    AHEAD_MIN = 8 << 10,
    AHEAD_MAX = 256 << 10, // for sequential reads
};

static int view_open_file(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

static size_t round_up(size_t n)
{
    return (n + FILE_VIEW_PAGE - 1) & ~(size_t)(FILE_VIEW_PAGE - 1);
}

static size_t bitmap_bytes(const struct file_view *view)
{
    return (round_up(view->n) / FILE_VIEW_PAGE / 64 + 1) * sizeof *view->pages;
}

static void set_file_identity(const struct stat *st, uint64_t identity[5])
{
    identity[0] = st->st_dev;
    identity[1] = st->st_ino;
    identity[2] = (uint64_t)st->st_size;
    identity[3] = (uint64_t)st->st_mtim.tv_sec;
    identity[4] = (uint64_t)st->st_mtim.tv_nsec;
}

static struct file_view *view_new(const char *path, const struct stat *st)
{
    struct file_view *view = calloc(1, sizeof *view);
    if (!view)
        return NULL;
    view->n = (size_t)st->st_size;
    view->fd = -1;
    set_file_identity(st, view->identity);
    view->path = strdup(path);
    view->pages = calloc(1, bitmap_bytes(view));
    void *p = mmap(NULL, round_up(view->n), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) {
        // With huge pages, each small read would take 2 MiB.
        madvise(p, round_up(view->n), MADV_NOHUGEPAGE);
        view->p = p;
    }
    if (view->p && view->pages && view->path)
        return view;
    file_view_free(view);
    return NULL;
}

struct file_view *file_view_open(const char *path, struct err *e)
{
    struct stat st;
    int fd = view_open_file(path);
    if (fd < 0 || fstat(fd, &st)) {
        err_set(e, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    close(fd);
    if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > SIZE_MAX / 2) {
        err_set(e, "%s: not a regular file with content", path);
        return NULL;
    }
    struct file_view *view = view_new(path, &st);
    if (!view)
        err_set(e, "%s: no memory", path);
    return view;
}

void file_view_free(struct file_view *view)
{
    if (!view)
        return;
    file_view_rest(view);
    if (view->p)
        munmap(view->p, round_up(view->n));
    free(view->pages);
    free(view->path);
    free(view);
}

void file_view_forget(struct file_view *view)
{
    if (view->held == 0)
        return;
    madvise(view->p, round_up(view->n), MADV_DONTNEED);
    memset(view->pages, 0, bitmap_bytes(view));
    view->held = view->next = view->ahead = 0;
}

size_t file_view_memory(const struct file_view *view)
{
    return sizeof *view + bitmap_bytes(view) + view->held;
}

// Compares the open file with the one opened first. Returns true if it is the same inode.
static bool check_identity(struct file_view *view)
{
    struct stat st;
    uint64_t now[5];
    if (fstat(view->fd, &st)) {
        view->changed = true;
        return false;
    }
    set_file_identity(&st, now);
    view->changed |= memcmp(now, view->identity, sizeof now) != 0;
    return now[0] == view->identity[0] && now[1] == view->identity[1];
}

void file_view_rest(struct file_view *view)
{
    if (view->fd >= 0 && check_identity(view))
        close(view->fd);
    view->fd = -1;
}

bool file_view_has_changed(struct file_view *view)
{
    if (view->fd >= 0 && !view->changed)
        check_identity(view);
    return view->changed;
}

static bool view_open_for_read(struct file_view *view)
{
    if (view->fd < 0 && !view->changed) {
        view->fd = view_open_file(view->path);
        view->changed = view->fd < 0;
        if (view->fd >= 0 && !check_identity(view)) {
            close(view->fd); // not the host's: we opened this other file
            view->fd = -1;
        }
    }
    return !view->changed;
}

// Returns false if the file has changed or cannot be read.
static bool view_read_file(struct file_view *view, size_t offset, uint8_t *to, size_t n)
{
    if (!view_open_for_read(view))
        return false;
    while (n) {
        ssize_t got = pread(view->fd, to, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        to += got;
        offset += (size_t)got;
        n -= (size_t)got;
    }
    view->changed |= n != 0;
    return !view->changed;
}

bool file_view_copy(struct file_view *view, size_t offset, void *to, size_t n)
{
    return offset <= view->n && n <= view->n - offset && view_read_file(view, offset, to, n);
}

static bool is_page_read(const struct file_view *view, size_t page)
{
    return view->pages[page / 64] >> page % 64 & 1;
}

// Reads the pages [first, end).
static void fill_pages(struct file_view *view, size_t first, size_t end)
{
    size_t at = first * FILE_VIEW_PAGE, to = end * FILE_VIEW_PAGE;
    to = to < view->n ? to : view->n;
    view_read_file(view, at, view->p + at, to - at);
    for (size_t i = first; i < end; i++)
        view->pages[i / 64] |= UINT64_C(1) << i % 64;
    view->held += (end - first) * FILE_VIEW_PAGE;
}

const uint8_t *file_view_fill(struct file_view *view, const uint8_t *p, size_t n)
{
    size_t at = (size_t)(p - view->p), pages = round_up(view->n) / FILE_VIEW_PAGE;
    size_t page = at / FILE_VIEW_PAGE, needed = (at + n + FILE_VIEW_PAGE - 1) / FILE_VIEW_PAGE;
    while (page < needed) {
        if (is_page_read(view, page)) {
            page++;
            continue;
        }
        bool sequential = page * FILE_VIEW_PAGE == view->next;
        view->ahead = !sequential               ? AHEAD_MIN
                      : view->ahead < AHEAD_MAX ? view->ahead * 2
                                                : AHEAD_MAX;
        size_t end = page + view->ahead / FILE_VIEW_PAGE, stop = page;
        end = end < needed ? needed : end;
        end = end < pages ? end : pages;
        while (stop < end && !is_page_read(view, stop))
            stop++;
        fill_pages(view, page, stop);
        page = stop;
        view->next = page * FILE_VIEW_PAGE;
    }
    while (page < pages && page < needed + AHEAD_MAX / FILE_VIEW_PAGE && is_page_read(view, page))
        page++;
    size_t end = page * FILE_VIEW_PAGE;
    return view->p + (end < view->n ? end : view->n);
}

const uint8_t *file_view_find_nul(struct file_view *view, const uint8_t *p, const uint8_t *end)
{
    while (p < end) {
        size_t page_end = ((size_t)(p - view->p) / FILE_VIEW_PAGE + 1) * FILE_VIEW_PAGE;
        const uint8_t *stop = view->p + (page_end < view->n ? page_end : view->n);
        stop = stop < end ? stop : end;
        file_view_need(view, p, (size_t)(stop - p));
        const uint8_t *nul = memchr(p, 0, (size_t)(stop - p));
        if (nul)
            return nul;
        p = stop;
    }
    return NULL;
}
