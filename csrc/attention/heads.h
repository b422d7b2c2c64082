// Norm, rotary embedding and the store to pages in one pass over the tokens, for recorded programs.

#pragma once

#include <cstdint>

#include "attention/attend.h"

namespace antiphon {

// Normalises queries and keys if they have weights, rotates them, and stores keys and values to their slots.
struct HeadsCall {
    HeadRows q, k, v;
    std::int64_t heads;
    const float *q_norm, *k_norm;  // null, or [head_dim]
    float q_eps, k_eps;
    const std::int32_t *positions;
    const float *table;
    std::int64_t rotated;
    const Pages *pages;
    const std::int64_t *slots;
    float *q_out;  // [tokens, heads, head_dim]
};
void run_heads(const HeadsCall &call, std::int64_t tokens, int threads, const Variant &variant);

}  // namespace antiphon
