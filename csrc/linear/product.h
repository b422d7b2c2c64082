// Products with matrices and their epilogues, split over threads, for Python and recorded programs.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/variant.h"
#include "linear/matrix.h"
#include "rows/kernels.h"

namespace antiphon {

// Addition of an adapter to rows [first, first + width) of some tokens' products, before bias and activation: the i-th of
// `tokens` gets the sum of weights[i][j] · rows[j].
struct LinearDelta {
    const float *weights;
    std::int64_t weight_stride;
    const float *rows;  // [rank, width]
    std::int64_t rank, width, first;
    const std::int64_t *tokens;
    std::int64_t num_tokens;
};

// out = activation(x · Wᵀ + deltas + bias) [· gated values] + residual. A row of `out` depends on its row of x alone, not on the
// number of tokens or threads.
struct LinearCall {
    const Matrix *matrix;
    const float *x;  // [tokens, columns]
    std::int64_t x_stride, tokens;
    const float *bias;  // null, or one for each row of the matrix
    Activation activation;
    bool gated;             // the matrix's first half of rows are gates, the second half values
    const float *residual;  // null, or of the shape of `out`
    std::int64_t residual_stride;
    float *out;  // [tokens, rows], or [tokens, rows / 2] with a gate
    std::int64_t out_stride;
    int threads;
    const Variant *variant;
    const LinearDelta *deltas = nullptr;
    std::size_t num_deltas = 0;
};

// Uses the calling thread's `workspace`.
void run_linear(const LinearCall &call);

// Decodes rows `ids` to out [count, columns]. Throws `std::invalid_argument` if an id is out of range.
void take_rows(const Matrix &matrix, const std::int64_t *ids, std::int64_t count, float *out, const Variant &variant);

}  // namespace antiphon
