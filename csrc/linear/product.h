// Products with matrices and what follows them, shared out over threads: what Python and recorded programs call.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/variant.h"
#include "linear/matrix.h"
#include "rows/kernels.h"

namespace antiphon {

// What adapters add to the product of some tokens, before bias and activation.
struct RowDeltas {
    const float *data;         // [tokens with a delta, rows of the matrix]
    const std::int64_t *rows;  // by token: its row of `data`, or negative for none
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
    const float *residual;  // null, or as `out`
    std::int64_t residual_stride;
    float *out;  // [tokens, rows], or [tokens, rows / 2] with a gate
    std::int64_t out_stride;
    int threads;
    const Variant *variant;
    const RowDeltas *deltas = nullptr;  // null: there are none
};

// Uses the calling thread's `workspace`.
void run_linear(const LinearCall &call);

// out[count, columns] = the rows named by ids, decoded. `std::invalid_argument` where an id is out of range.
void take_rows(const Matrix &matrix, const std::int64_t *ids, std::int64_t count, float *out, const Variant &variant);

}  // namespace antiphon
