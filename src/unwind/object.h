// Loads an object's unwind information from memory or from its file.
#pragma once

#include "unwind/eh_frame.h"
#include "process/memory.h"

// The copies that an eh_input refers to. Nothing is parsed in place: other threads may unmap memory
// and other processes may truncate files, and a fault would kill the host process.
struct object_frames {
    struct eh_input in;
    uintptr_t shift; // run-time address minus input address
    void *memory[3];
    size_t n_memory[3];
};

// Copies .eh_frame_hdr (n bytes at header) and .eh_frame, which ends before limit, from the running
// process. Both may be unmapped meanwhile. Returns 0, or -1 if nothing is usable.
int object_from_memory(struct object_frames *f, uintptr_t header, size_t n, uintptr_t limit);

// Reads .eh_frame, or else .debug_frame, from the file. If n > 0, the file must have this build id.
// Returns 0, or -1 if nothing is usable.
int object_from_file(struct object_frames *f, const char *path, uintptr_t bias,
                     const uint8_t *build_id, size_t n);
// Computes the bias of a file whose byte file_offset is mapped executable at start. Returns false
// if it is not an object.
bool object_bias(const char *path, uint64_t file_offset, uintptr_t start, uintptr_t *bias);
void object_frames_fini(struct object_frames *f);

// Finds the build id in ELF notes and returns its length; 0 if there is none.
size_t object_build_id(const uint8_t *notes, size_t n, size_t align, const uint8_t **id);
