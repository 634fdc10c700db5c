// Format detection. Each function looks at the start of an input (or all of it). The checks are
// cheap, and strict enough to tell one text format from another.
#pragma once

#include "base/str.h"

// The first line is `heap_v2/<rate>`.
bool codec_looks_like_jemalloc(struct str head);
// A JSON object that contains speedscope's schema URL, or both "shared" and "profiles".
bool codec_looks_like_speedscope(struct str head);
// The header line of a sample, followed by a stack or a frame.
bool codec_looks_like_perf_script(struct str head);
// Each of the first lines is `frame;frame value`.
bool codec_looks_like_folded(struct str head);
