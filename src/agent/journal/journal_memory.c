// Memory of the part is allocated from its beginning and never freed.
//
// It is mapped piece by piece, so that only what is used counts for memory limits and mlockall. The
// program may close our descriptor and /proc may be missing. So each piece is mapped together with
// the first page of the next one, from which mremap can map that next piece.
#include "agent/journal/journal_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process/sandbox.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
    PAGE = 4096,
    PIECE = 1 << 20, // bytes mapped at once
    MOST_PIECES = JOURNAL_PART / PIECE - 1,
    MOST_RECORDS = 256 << 20, // bytes
};

static struct {
    struct journal_part *part;
    char *pieces[MOST_PIECES]; // in order
    size_t n_pieces;
    size_t records;       // bytes of blocks with records
    bool populate;        // the kernel may refuse pages on first touch, so populate them first
    pthread_mutex_t lock; // guards `used`: new threads allocate rings
    struct journal_block *block; // current block for records
    size_t block_at;             // its offset in the part
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

void *journal_memory_at(size_t offset)
{
    return memory.pieces[offset / PIECE] + offset % PIECE;
}

static bool add_piece(void *mapped)
{
    if (mapped == MAP_FAILED)
        return false;
    // Keep it out of core dumps, and avoid huge pages.
    madvise(mapped, PIECE + PAGE, MADV_DONTDUMP);
    madvise(mapped, PIECE + PAGE, MADV_NOHUGEPAGE);
    memory.pieces[memory.n_pieces++] = mapped;
    return true;
}

// Maps at least the first n bytes.
static bool map_up_to(size_t n)
{
    while (n > memory.n_pieces * PIECE) {
        if (memory.n_pieces == MOST_PIECES || sandbox_scope() == SANDBOX_ALL_THREADS)
            return false;
        char *next = memory.pieces[memory.n_pieces - 1] + PIECE;
        if (!add_piece(mremap(next, 0, PIECE + PAGE, MREMAP_MAYMOVE)))
            return false;
    }
    return true;
}

static bool populate_pages(char *p, size_t n)
{
    uintptr_t page = (uintptr_t)p & ~(uintptr_t)(PAGE - 1);
    return !memory.populate ||
           madvise((void *)page, (uintptr_t)p + n - page, MADV_POPULATE_WRITE) == 0;
}

static struct journal_block *put_block(uint32_t kind, size_t offset, size_t size)
{
    struct journal_block *block = NULL;
    if (!map_up_to(offset + size) || !populate_pages(journal_memory_at(offset), size))
        return NULL;
    block = journal_memory_at(offset);
    block->kind = kind;
    block->size = (uint32_t)size;
    atomic_store(&block->used, sizeof *block);
    atomic_store(&memory.part->used, offset + size);
    return block;
}

static struct journal_block *add_block(enum journal_block_kind kind, size_t bytes)
{
    struct journal_block *block = NULL;
    size_t size = (sizeof *block + bytes + 63) & ~(size_t)63;
    pthread_mutex_lock(&memory.lock);
    size_t offset = atomic_load(&memory.part->used), left = PIECE - offset % PIECE;
    // A block must lie within one piece.
    if (size > left && put_block(JOURNAL_FILLER, offset, left))
        offset += left;
    if (size <= PIECE - offset % PIECE)
        block = put_block(kind, offset, size);
    if (block && kind == JOURNAL_RECORDS)
        memory.block_at = offset;
    pthread_mutex_unlock(&memory.lock);
    return block;
}

void *journal_memory_ring(size_t bytes)
{
    struct journal_block *block = memory.part ? add_block(JOURNAL_RING, bytes) : NULL;
    return block ? block + 1 : NULL;
}

void *journal_memory_heap(size_t bytes)
{
    struct journal_block *block = memory.part ? add_block(JOURNAL_HEAP, bytes) : NULL;
    return block ? block + 1 : NULL;
}

void *journal_memory_reserve(size_t size)
{
    struct journal_block *b = memory.block;
    if (!b || size > b->size - atomic_load(&b->used)) {
        if (memory.records + JOURNAL_BLOCK > MOST_RECORDS)
            return NULL;
        b = add_block(JOURNAL_RECORDS, JOURNAL_BLOCK);
        if (!b)
            return NULL;
        memory.records += b->size;
        memory.block = b;
    }
    return (char *)b + atomic_load(&b->used);
}

void journal_memory_commit(enum journal_record_kind kind, size_t size)
{
    struct journal_block *b = memory.block;
    struct journal_record *record = (struct journal_record *)((char *)b + atomic_load(&b->used));
    *record = (struct journal_record){kind, (uint32_t)size};
    atomic_fetch_add_explicit(&b->used, (uint32_t)size, memory_order_release);
}

size_t journal_memory_place(const void *record)
{
    return memory.block_at + (size_t)((const char *)record - (const char *)memory.block);
}

void journal_memory_reach(size_t more)
{
    pthread_mutex_lock(&memory.lock);
    map_up_to(atomic_load(&memory.part->used) + more);
    pthread_mutex_unlock(&memory.lock);
}

// Only strict accounting (mode 2) can refuse shared pages on first touch.
static bool pages_may_be_refused(void)
{
    char mode = '0';
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, &mode, 1) != 1)
        mode = '0';
    if (fd >= 0)
        close(fd);
    return mode == '2';
}

struct journal_part *journal_memory_map(int fd, uint32_t index)
{
    if (!add_piece(mmap(NULL, PIECE + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                        (off_t)JOURNAL_FILE_SIZE + (off_t)index * JOURNAL_PART)))
        return NULL;
    memory.populate = pages_may_be_refused();
    memory.part = journal_memory_at(0);
    return memory.part;
}

void journal_memory_forget(bool in_use)
{
    // A confined child must not unmap them.
    for (size_t i = 0; i < memory.n_pieces && !sandbox_confines_caller(); i++) {
        if (in_use)
            mmap(memory.pieces[i], PIECE + PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        else
            munmap(memory.pieces[i], PIECE + PAGE);
    }
    memory.n_pieces = memory.records = 0;
    memory.part = NULL;
    memory.block = NULL;
    memory.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
