// Base of all implementations of attention over whole sequences with packed keys and values.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/attend.h"
#include "base/workspace.h"

namespace antiphon {

inline std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
inline std::int64_t padded(std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit * unit; }

// Attention of all queries of a sequence to all of its keys.
struct WholeAttention {
    HeadRows q, k, v;
    std::int64_t heads, kv_heads, head_dim;
    float scale;
    float *out;
    const Variant *variant;
    // The sequence: its first token, its number of keys, and that number padded.
    std::int64_t first = 0, length = 0, columns = 0;
    std::size_t key_bytes = 0, value_bytes = 0, thread_bytes = 0;
    char *packed = nullptr, *scratch = nullptr;

    char *keys_of(std::int64_t head) const { return packed + head * (key_bytes + value_bytes); }
    char *values_of(std::int64_t head) const { return keys_of(head) + key_bytes; }

    // Allocates memory for packed heads and for each thread; their sizes must be set.
    void reserve(int threads) {
        packed = workspace(kv_heads * (key_bytes + value_bytes) + thread_bytes * std::max(threads, 1));
        scratch = packed + kv_heads * (key_bytes + value_bytes);
    }
};

// Calls work.run(threads) for every sequence that is not empty.
template <class Work> void attend_each(Work work, const std::int32_t *seq_start, std::int64_t sequences, int threads) {
    for (std::int64_t s = 0; s < sequences; ++s) {
        work.first = seq_start[s];
        work.length = seq_start[s + 1] - seq_start[s];
        if (work.length > 0) work.run(threads);
    }
}

}  // namespace antiphon
