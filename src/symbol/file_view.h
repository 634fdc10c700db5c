// Reads a file inside the host process, piece by piece, into kiln's own memory. Mapping would be
// faster, but truncating a mapped file kills the process with SIGBUS.
//
// The view reserves one address range for the whole file. Pages are zero until they are read, so a
// pointer into the view never faults, whatever happens to the file.
//
// The file is opened for reading and closed by file_view_rest. The host may close this descriptor
// and reuse its number. Therefore it is held only for a few lookups, and closed only if it still
// refers to the file. Once the file has changed (inode, size or modification time), nothing more is
// read and file_view_has_changed returns true. Results found in the view are then invalid.
//
// Use a view from one thread at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { FILE_VIEW_PAGE = 4096 };

struct file_view {
    uint8_t *p;
    size_t n;
    uint64_t *pages; // one bit per page that was read
    size_t held;     // bytes of pages that were read
    size_t next;     // end of the last read; ahead is its size
    size_t ahead;
    int fd; // -1: not open
    bool changed;
    uint64_t identity[5]; // device, inode, size, modification time
    char *path;
};

// Returns NULL with e filled on failure.
struct file_view *file_view_open(const char *path, struct err *e);
void file_view_free(struct file_view *view);

// Closes the descriptor until the next read.
void file_view_rest(struct file_view *view);
// Releases all pages. They are zero until they are read again.
void file_view_forget(struct file_view *view);
// Whether the file has changed since it was opened.
bool file_view_has_changed(struct file_view *view);
// Returns the bytes of memory in use.
size_t file_view_memory(const struct file_view *view);

// Copies a part of the file without keeping its pages. Returns false if the file cannot be read or
// has changed.
bool file_view_copy(struct file_view *view, size_t offset, void *to, size_t n);

// Reads [p, p + n), which must lie in the view, and some bytes ahead. Returns the end of the bytes
// that are now in memory, at least p + n.
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

// Returns the first NUL in [p, end), reading as necessary, or NULL.
const uint8_t *file_view_find_nul(struct file_view *view, const uint8_t *p, const uint8_t *end);
