// Writes the samples of this process to memory shared with `kiln run`, which can then read them
// however the process ends. codec/journal.h describes the format.
//
// journal_is_followed, journal_is_open and journal_note may be called by any thread; calls of the
// other functions must not overlap.
#pragma once

#include <stdbool.h>

#include "agent/agent.h"
#include "codec/journal.h"

// Claims a part of the memory named by `where` ("PATH:TOKEN", set by `kiln run`) and connects the
// collector to it. Call it before collector_start. follow: children of fork will want parts as
// well. Returns -1 and fills e on failure.
int journal_open(const char *where, bool follow, uint32_t hz, struct err *e);
// In the child of fork: forgets the parent's part. Only journal_open may follow.
void journal_after_fork(void);
// Returns whether programs that this process executes belong to the profile. Signal-safe.
bool journal_is_followed(void);
// Returns whether `kiln run` reads this process's samples.
bool journal_is_open(void);
// Maps memory in advance, because the process will not be able to map any later.
void journal_before_confinement(void);
// Leaves a message for the user of `kiln run`. Signal-safe; does nothing without a journal.
void journal_note(enum journal_note_kind kind, const char *text);
