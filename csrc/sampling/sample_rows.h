// Sampling of a token for every row of logits, for Python and decode steps.

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

// Sampling of row r of the logits uses entry entries[r] of the columns, and that entry's index + ahead[r]. Null: entry r,
// and 0.
struct RowChoice {
    const std::int64_t *entries = nullptr, *ahead = nullptr;
};

// Log-probabilities are not computed if `logprobs` is null.
void sample_rows(const float *logits, std::int64_t stride, std::int64_t count, std::int64_t vocabulary,
                 const SamplingColumns &columns, const RowChoice &choice, std::int64_t *tokens, float *logprobs,
                 int threads, const Variant &variant);

}  // namespace antiphon
