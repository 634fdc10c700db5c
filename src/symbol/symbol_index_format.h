// The file format of a prebuilt index; docs/reference/symbol-index.md explains it.
#pragma once

#include <stdint.h>

#define INDEX_MAGIC "KILNSYMX"

enum {
    INDEX_VERSION = 1,
    INDEX_BLOCK_ROWS = 64,
    INDEX_BLOCK_NODES = 16,
};

enum {
    INDEX_BLOCKS,
    INDEX_ROWS,
    INDEX_NODE_BLOCKS,
    INDEX_NODES,
    INDEX_FUNCTIONS,
    INDEX_FILES,
    INDEX_STRINGS,
    INDEX_PARTS,
};

struct index_header {
    char magic[8];
    uint32_t version;
    uint32_t build_id_size;
    uint8_t build_id[64];
    uint64_t base;
    uint64_t sizes[INDEX_PARTS];
};

struct index_block {
    uint32_t address; // of its first row, relative to base
    uint32_t rows;    // offset in the rows
};

struct index_function {
    uint32_t name, start_line; // name: offset in the strings; 0: unknown
    uint32_t file;             // file of its first frame; nodes in other files store theirs
};
