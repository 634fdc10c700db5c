// What a format begins with: cheap looks at the start of an input (or all of it), precise
// enough that one format's text is not taken for another's.
#pragma once

#include "base/str.h"

// `heap_v2/<rate>` as the first line.
bool codec_looks_like_jemalloc(struct str head);
// A JSON object that names speedscope's schema, or has both "shared" and "profiles".
bool codec_looks_like_speedscope(struct str head);
// A sample's heading, with a stack or a frame after it.
bool codec_looks_like_perf_script(struct str head);
// Each of the first lines is `frame;frame value`.
bool codec_looks_like_folded(struct str head);
