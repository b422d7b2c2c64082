// Samples a token for every row of logits: what Python and decode steps call.

#pragma once

#include <cstdint>

#include "base/variant.h"

namespace antiphon {

// Sampling parameters, one entry per row.
struct SamplingColumns {
    const float *temperature;
    const std::int32_t *top_k;
    const float *top_p, *min_p;
    const std::int64_t *seed, *index;
};

// Which entry of the columns row r of the logits is sampled with, and how far behind the entry's index it is. Null: entry
// r, and not behind it.
struct RowChoice {
    const std::int64_t *entries = nullptr, *ahead = nullptr;
};

// Log-probabilities are not computed if `logprobs` is null.
void sample_rows(const float *logits, std::int64_t stride, std::int64_t count, std::int64_t vocabulary,
                 const SamplingColumns &columns, const RowChoice &choice, std::int64_t *tokens, float *logprobs,
                 int threads, const Variant &variant);

}  // namespace antiphon
