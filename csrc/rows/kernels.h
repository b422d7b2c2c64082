// Operations on independent rows: norms, rotary embedding, and the epilogue of a product. A row's result depends on that
// row alone.

#pragma once

#include <cstdint>

namespace antiphon {

// Row r lies at data + r / inner * outer_stride + r % inner * inner_stride.
struct RowsView {
    const float *data;
    std::int64_t inner, outer_stride, inner_stride;
};

struct Norm {
    RowsView x, residual;  // residual.data may be null
    std::int64_t width;
    const float *weight, *bias;  // bias may be null
    float eps;
    float *y, *total;  // contiguous; total = x + residual is written only with a residual
};

struct Rotation {
    struct Heads {
        const float *data;
        std::int64_t token_stride, head_stride, heads;
        float *out;  // [tokens, heads, head_dim]
    } sides[2];
    std::int64_t head_dim, rotated;
    const std::int32_t *positions;
    const float *table;  // [positions, rotated]: cosines, then sines
};

// out[row] = x[row] + y[row modulo y_rows]
struct RowSum {
    const float *x;
    std::int64_t x_stride;
    const float *y;
    std::int64_t y_stride, y_rows, width;
    float *out;  // contiguous
};

// Mean of the rows [seq_start[s], seq_start[s + 1]) for each segment s.
struct SegmentMeans {
    const float *x;
    std::int64_t x_stride, width;
    const std::int32_t *seq_start;
    float *out;  // contiguous
};

// Rows scaled to length 1.
struct UnitRows {
    const float *x;
    std::int64_t x_stride, width;
    float *out;  // contiguous
};

// y[tokens[i]] += sum of weights[i][j] · rows[j], in ascending order of j.
struct WeightedRows {
    const float *weights;  // [num_tokens, count]
    std::int64_t weight_stride;
    const float *rows;  // [count, row_stride]
    std::int64_t row_stride, count;
    const std::int64_t *tokens;
    std::int64_t num_tokens;
    float *y;
    std::int64_t y_stride;
};

enum class Activation : int { none, relu, gelu, gelu_tanh, silu };

// activation(y + bias) [· (value + value_bias)] + residual, for the columns [begin, end) of `out`.
struct Epilogue {
    Activation activation;
    bool gated;
    const float *bias;  // null, or one for each row of the product; with a gate, the gates' biases, then the values'
    const float *residual;  // null, or of the shape of `out`
    std::int64_t residual_stride;
    float *out;
    std::int64_t out_stride, columns;
};

struct RowKernels {
    void (*rms_norm)(const Norm &, std::int64_t begin, std::int64_t end);
    void (*layer_norm)(const Norm &, std::int64_t begin, std::int64_t end);
    // Rotates the heads of tokens [begin, end).
    void (*rotate)(const Rotation &, std::int64_t begin, std::int64_t end);
    void (*add)(const RowSum &, std::int64_t begin, std::int64_t end);
    // Averages the rows of segments [begin, end).
    void (*segment_means)(const SegmentMeans &, std::int64_t begin, std::int64_t end);
    void (*unit_rows)(const UnitRows &, std::int64_t begin, std::int64_t end);
    // Adds to columns [begin, end).
    void (*add_weighted)(const WeightedRows &, std::int64_t begin, std::int64_t end);
    // `y` and `value` hold the columns from `begin` on, with tokens `stride` apart; `y` may be `out` itself.
    void (*finish)(const Epilogue &, std::int64_t tokens, std::int64_t begin, std::int64_t end, const float *y,
                   const float *value, std::int64_t stride);
};

}  // namespace antiphon
