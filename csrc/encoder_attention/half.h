// Attention over whole sequences in 16-bit floats, for processors on which these are faster than grouped int8.

#pragma once

#include "attention/attend.h"

namespace antiphon {

// Computes `attend_sequences` without masking. The variant must have kernels for bf16, and `head_dim` must be a multiple of
// 16 and of their columns. Queries, keys, values and the weights e^(score - maximum) are rounded to bf16, sums are in fp32.
// A query's result depends on its sequence alone, not on other sequences or threads.
void attend_half(const HeadRows &q, const HeadRows &k, const HeadRows &v, std::int64_t heads, std::int64_t kv_heads,
                 std::int64_t head_dim, const std::int32_t *seq_start, std::int64_t sequences, float scale, float *out,
                 int threads, const Variant &variant);

}  // namespace antiphon
