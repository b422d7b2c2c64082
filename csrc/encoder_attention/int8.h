// Attention over whole sequences by a variant's int8 kernels (int8_kernels.h), split over threads.

#pragma once

#include "attention/attend.h"

namespace antiphon {

// Computes `attend_sequences` without masking. `head_dim` must be a multiple of 16 up to 256. A query's result depends on
// its sequence alone, not on other sequences or threads.
void attend_int8(const HeadRows &q, const HeadRows &k, const HeadRows &v, std::int64_t heads, std::int64_t kv_heads,
                 std::int64_t head_dim, const std::int32_t *seq_start, std::int64_t sequences, float scale, float *out,
                 int threads, const Variant &variant);

}  // namespace antiphon
