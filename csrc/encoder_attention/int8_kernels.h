// Kernels of attention over whole sequences in int8 with few scales, so that nearly all the work is dot products.
//
// Queries have one scale each, keys one per group, values one per channel. A query's weights e^(scale · (score - the
// largest of the group)) become codes from 0 to 127 group by group, with one scale per group.

#pragma once

#include <cstdint>

namespace antiphon {

constexpr std::int64_t kGroupKeys = 32;   // keys that share a scale, and a scale of weights for each query
constexpr std::int64_t kPanelRows = 8;    // rows of a panel: keys, or channels of values
constexpr std::int64_t kQueryTile = 8;    // queries whose weights are computed together; `combine` takes half as many

// Keys and values of a head. A panel is [columns / 4][8 rows][4]; panels of keys have the channels as columns, panels of
// values the keys. The last group of keys is padded with zeros.
struct Int8Head {
    std::int64_t length, groups, head_dim;
    std::int8_t *keys;      // [groups * 4 panels]
    float *key_scales;      // [groups]
    std::int8_t *values;    // [head_dim / 8 panels]
    float *value_scales;    // [head_dim]
};

// Queries of a task and their intermediate results. Values of a group are contiguous over the queries.
struct Int8Queries {
    std::int64_t count, padded;  // `padded` is a multiple of kQueryTile
    std::int8_t *codes;          // [padded / 8, head_dim / 16, 8, 16]
    float *factors;              // [padded]: factor from a product of codes, times the keys' scale, to powers of two
    std::int8_t *weights;        // [padded, weight_stride]
    std::int64_t weight_stride;
    float *tops;                 // [groups, padded]: a group's largest power of two, then the scale of its weights
    float *sums;                 // [groups, padded]: sum of the weights' codes
    float *shares;               // [padded]: 1 / total of all weights
};

struct Int8AttentionKernels {
    void (*pack_keys)(const float *k, std::int64_t stride, const Int8Head &head);
    void (*pack_values)(const float *v, std::int64_t stride, const Int8Head &head);
    void (*round_queries)(const float *q, std::int64_t stride, std::int64_t head_dim, float scale, const Int8Queries &queries);
    // Computes weights e^(scale · (score - the group's largest)) as codes from 0 to 127, and the groups' tops and sums.
    void (*weigh)(const Int8Head &head, const Int8Queries &queries);
    // out[query][head_dim] = Σ weight · value / Σ weight
    void (*combine)(const Int8Head &head, const Int8Queries &queries, float *out, std::int64_t out_stride);
};

}  // namespace antiphon
