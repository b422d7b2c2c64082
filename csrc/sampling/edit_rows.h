// Logit edits of every row, except typical sampling, and counts of sampled tokens, for Python.

#pragma once

#include <cstdint>

#include "base/variant.h"

namespace antiphon {

// Lists of tokens by row: row r has ids[row_start[r]] up to row_start[r + 1], with `values` or null. Null without lists.
struct TokenLists {
    const std::int32_t *row_start, *ids;
    const float *values;
};

// Counts by slot: `capacity` entries for distinct tokens, of which the first num_ids[slot] are in use.
struct TokenCounts {
    std::int32_t *ids, *counts, *num_ids;
    std::int64_t capacity;
};

struct LogitEdits {
    const std::uint8_t *masks;        // `mask_bytes` bytes each
    const std::int32_t *mask_index;   // by row; -1 without a mask
    std::int64_t mask_bytes;
    TokenLists allowed, banned;
    const std::int32_t *spans;        // five by row, or null
    TokenLists bias;
    const float *penalties;           // three by row, or null
    const std::int32_t *slots;        // by row; -1 without penalties
    TokenCounts counts;
};

void edit_rows(float *logits, std::int64_t stride, std::int64_t count, std::int64_t vocabulary, const LogitEdits &edits,
               int threads, const Variant &variant);

// Counts tokens[r] in slots[r], unless the slot is negative.
void count_tokens(const TokenCounts &counts, const std::int32_t *slots, const std::int64_t *tokens, std::int64_t count);

}  // namespace antiphon
