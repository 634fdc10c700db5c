// Stack formats of Pyroscope's older agents: counted lines, plain lines, and two binary trees.
//
//   groups  lines `root;caller;leaf 12`; lines without a blank are skipped
//   lines   lines `root;caller;leaf`, each counts one
//   tree    preorder: uvarint name length, name, uvarint self, uvarint number of children; the
//           first node is the root and not a frame
//   trie    like tree, but a name is a piece of the joined stack: a node's stack is the
//           concatenation of all names from the root to it
#pragma once

#include "model/profile.h"

enum stacks_format { STACKS_GROUPS, STACKS_LINES, STACKS_TREE, STACKS_TRIE };

// Reads stacks into a profile in arena with one sample type, samples/count. Returns NULL with e
// filled on failure.
struct model_profile *stacks_read(struct arena *arena, enum stacks_format format,
                                  const uint8_t *data, size_t n, struct err *e);
