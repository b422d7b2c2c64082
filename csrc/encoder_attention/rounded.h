// Attention over whole sequences in int8, for models whose products are in int8; in bf16 (half.h) or with fewer scales
// (int8.h) if the variant has such kernels.

#pragma once

#include "attention/attend.h"

namespace antiphon {

// Computes `attend_sequences` without masking. `head_dim` must be a multiple of kPackedGroup. Keys and values become packed
// Q8_0 (packed/format.h), values by channel along the keys. Queries, and the weights e^(score - maximum) by groups of
// kPackedGroup keys, are rounded as activations; results are divided by the total of the rounded weights. A query's result
// depends on its sequence alone, not on other sequences or threads.
void attend_rounded(const HeadRows &q, const HeadRows &k, const HeadRows &v, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, const std::int32_t *seq_start, std::int64_t sequences, float scale, float *out,
                    int threads, const Variant &variant);

}  // namespace antiphon
