// Attention over whole sequences in 16-bit floats, for processors on which they are faster than grouped int8.

#pragma once

#include "attention/attend.h"

namespace antiphon {

// As `attend_sequences` without any masking; the variant has kernels for bf16, and `head_dim` is a multiple of both 16
// and their columns. Queries, keys, values and the weights e^(score - maximum) are rounded to it, sums are in fp32. A
// query's result depends on its sequence alone, not on other sequences or threads.
void attend_half(const HeadRows &q, const HeadRows &k, const HeadRows &v, std::int64_t heads, std::int64_t kv_heads,
                 std::int64_t head_dim, const std::int32_t *seq_start, std::int64_t sequences, float scale, float *out,
                 int threads, const Variant &variant);

}  // namespace antiphon
