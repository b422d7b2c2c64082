// Attention over whole sequences in int8, for models whose products are computed that way; in bf16 (half.h) or with
// fewer scales (int8.h) where the variant has kernels for that.

#pragma once

#include "attention/attend.h"

namespace antiphon {

// As `attend_sequences` without any masking; `head_dim` is a multiple of kPackedGroup. Keys and values become packed
// Q8_0 (packed/format.h), values by channel along the keys. Queries, and the weights e^(score - maximum) by groups of
// kPackedGroup keys, are rounded as activations; the weights are divided by the total of the rounded
// ones. A query's result depends on its sequence alone, not on other sequences or threads.
void attend_rounded(const HeadRows &q, const HeadRows &k, const HeadRows &v, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, const std::int32_t *seq_start, std::int64_t sequences, float scale, float *out,
                    int threads, const Variant &variant);

}  // namespace antiphon
