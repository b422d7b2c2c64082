// Products of int8 rows with one scale per row: sums over a whole row are integers, and the inner loop is nothing but dot
// products. For many tokens at once; a scale for every 32 columns (packed/format.h) is more exact.

#pragma once

#include <cstdint>

namespace antiphon {

constexpr std::int64_t kScaledRows = 16;      // of a panel
constexpr std::int64_t kScaledColumns = 64;   // the number of columns is a multiple of it
constexpr std::int64_t kScaledTokens = 16;    // codes may be read and totals written, both unused, up to a multiple of it
constexpr std::int64_t kTokensPerCall = 192;  // at most, of one call of the kernel

// y[token][row] = float(Σ code · x_code) · (row's scale · token's scale). A row is round(w · (127 / a)) for its largest
// magnitude a, with the scale a / 127, and so is a token; without a magnitude of at least 2^-100 codes and scale are 0,
// and one that holds an infinity or NaN has the scale NaN and codes 0.
struct ScaledProduct {
    const std::int8_t *panels;  // [rows / 16, columns / 4, 16, 4], the last panel filled up with zeros
    const float *row_scales;    // [rows, filled up as the panels]
    std::int64_t columns;
    const std::int8_t *x;       // [tokens, columns]
    const float *x_scales;      // [tokens]
};

struct ScaledKernels {
    // totals[token - begin][16] of one panel.
    void (*multiply)(const ScaledProduct &, std::int64_t panel, std::int64_t begin, std::int64_t end, float *totals);
    // A row of x.
    void (*quantize)(const float *x, std::int64_t columns, std::int8_t *codes, float *scale);
};

}  // namespace antiphon
