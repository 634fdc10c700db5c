// Where an object's unwind information comes from: its memory, or its file.
#pragma once

#include "unwind/eh_frame.h"
#include "process/memory.h"

// Copies that an eh_input refers to. Nothing is parsed where it lies: memory may be unmapped
// and files be truncated by others, and a fault in the process that we live in is not an error
// message.
struct object_frames {
    struct eh_input in;
    uintptr_t shift; // run-time addresses minus those of the input
    void *memory[3];
    size_t n_memory[3];
};

// Copies .eh_frame_hdr (n bytes at header) and .eh_frame, which ends before limit, out of
// the running process. Both may vanish meanwhile. 0, or -1 if there is nothing usable.
int object_from_memory(struct object_frames *f, uintptr_t header, size_t n, uintptr_t limit);

// Finds .eh_frame, else .debug_frame, in the file. A file without the given build id (n > 0) is
// not the object. -1: nothing usable.
int object_from_file(struct object_frames *f, const char *path, uintptr_t bias,
                     const uint8_t *build_id, size_t n);
// The bias of a file whose byte file_offset is mapped, executable, at start. False: not an object.
bool object_bias(const char *path, uint64_t file_offset, uintptr_t start, uintptr_t *bias);
void object_frames_fini(struct object_frames *f);

// The build id in notes: its length, 0 if there is none.
size_t object_build_id(const uint8_t *notes, size_t n, size_t align, const uint8_t **id);
