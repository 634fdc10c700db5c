// The samples of this process in memory that it shares with `kiln run`, which has them then
// however the process ends: see codec/journal.h for what lies there.
//
// Everything but journal_note is called by one thread at a time.
#pragma once

#include <stdbool.h>

#include "agent/agent.h"
#include "codec/journal.h"

// Takes a part of the memory that where names, "PATH:TOKEN" as `kiln run` set it, and has the
// collector write there. Before collector_start. follow: children of fork will want parts, too.
int journal_open(const char *where, bool follow, uint32_t hz, struct err *e);
// In the child of fork: forgets the parent's part. journal_open is next, or nothing.
void journal_after_fork(void);
// Whether what this process executes belongs into the profile. Signal-safe.
bool journal_is_followed(void);
// Whether that is also so for the programs that it starts as children. Signal-safe.
bool journal_follows_children(void);
// Whether `kiln run` reads the samples of this process.
bool journal_is_open(void);
// The process will not be able to map memory any more: some is mapped now.
void journal_before_confinement(void);
// Tells the user something. Signal-safe; does nothing without a journal.
void journal_note(enum journal_note_kind kind, const char *text);
