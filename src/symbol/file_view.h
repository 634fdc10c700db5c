// A file of the host process, read piece by piece into memory of our own. Mapping it would be
// faster, but a mapped file that is cut short kills the process with SIGBUS.
//
// The view reserves one stretch of addresses for the whole file. Pages are zeros until they are
// read from the file, so a pointer into the view never faults, whatever happens to the file.
//
// The file is opened when it is read and closed by file_view_rest: the host may close our
// descriptor and reuse its number, so we hold it for the time of a few look-ups only, and close it
// only if it still is ours. Once the file is not what it was (its inode, size or time of
// modification), nothing more is read and file_view_has_changed is true: answers that were found in
// the view mean nothing.
//
// One thread at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { FILE_VIEW_PAGE = 4096 };

struct file_view {
    uint8_t *p;
    size_t n;
    uint64_t *pages; // a bit for each page that was read
    size_t held;     // bytes of pages that were read
    size_t next;     // where the last read ended, and how much it was
    size_t ahead;
    int fd; // -1: not open
    bool changed;
    uint64_t identity[5]; // device, inode, size, time of the last change
    char *path;
};

// NULL with e filled.
struct file_view *file_view_open(const char *path, struct err *e);
void file_view_free(struct file_view *view);

// Closes the descriptor until the next read.
void file_view_rest(struct file_view *view);
// Gives back all pages: they are zeros until they are read again.
void file_view_forget(struct file_view *view);
// Whether the file has changed since it was opened.
bool file_view_has_changed(struct file_view *view);
// Bytes of memory in use.
size_t file_view_memory(const struct file_view *view);

// Copies a part of the file past the view's own pages. False: it cannot be read, or has changed.
bool file_view_copy(struct file_view *view, size_t offset, void *to, size_t n);

// Reads [p, p + n), which must lie in the view, with some bytes ahead. Returns the end of what is
// there now, p + n or more.
const uint8_t *file_view_fill(struct file_view *view, const uint8_t *p, size_t n);

static inline bool file_view_has(const struct file_view *view, const uint8_t *p, size_t n)
{
    size_t first = (size_t)(p - view->p) / FILE_VIEW_PAGE;
    size_t last = ((size_t)(p - view->p) + n - 1) / FILE_VIEW_PAGE;
    return last - first <= 1 && (view->pages[first / 64] >> first % 64 & 1) &&
           (view->pages[last / 64] >> last % 64 & 1);
}

static inline void file_view_need(struct file_view *view, const uint8_t *p, size_t n)
{
    if (n && !file_view_has(view, p, n))
        file_view_fill(view, p, n);
}

// The first NUL in [p, end), read so far; NULL: there is none.
const uint8_t *file_view_find_nul(struct file_view *view, const uint8_t *p, const uint8_t *end);
