// The stack formats that Pyroscope's older agents send: counted lines, bare lines, and two
// binary trees.
//
//   groups  `root;caller;leaf 12` a line; a line without a blank is skipped
//   lines   `root;caller;leaf` a line, each counts one
//   tree    preorder: uvarint name length, name, uvarint self, uvarint number of children; the
//           first node is the root and no frame
//   trie    the same, but a name is a piece of the joined stack: a node's stack is all names
//           from the root to it, one behind the other
#pragma once

#include "model/profile.h"

enum stacks_format { STACKS_GROUPS, STACKS_LINES, STACKS_TREE, STACKS_TRIE };

// One sample type, samples/count. NULL with e filled.
struct model_profile *stacks_read(struct arena *arena, enum stacks_format format,
                                  const uint8_t *data, size_t n, struct err *e);
