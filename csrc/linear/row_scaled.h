// Products of int8 rows with one scale per row, for many tokens at once: sums over a whole row are integers, and the inner
// loop has only dot products. A scale for every 32 columns (packed/format.h) is more exact.

#pragma once

#include <cstdint>

namespace antiphon {

constexpr std::int64_t kScaledRows = 16;      // rows of a panel
constexpr std::int64_t kScaledColumns = 64;   // divisor of the number of columns
constexpr std::int64_t kScaledTokens = 16;    // kernels read codes and write totals, both unused, up to a multiple of this
constexpr std::int64_t kTokensPerCall = 192;  // maximum tokens of one call of the kernel

// y[token][row] = float(Σ code · x_code) · (row's scale · token's scale). A row's codes are round(w · (127 / a)) for its
// largest magnitude a, and its scale is a / 127; a token's are computed alike. Below a magnitude of 2^-100, codes and scale
// are 0; with an infinity or NaN, codes are 0 and the scale is NaN.
struct ScaledProduct {
    const std::int8_t *panels;  // [rows / 16, columns / 4, 16, 4], the last panel padded with zeros
    const float *row_scales;    // [rows], padded like the panels
    std::int64_t columns;
    const std::int8_t *x;       // [tokens, columns]
    const float *x_scales;      // [tokens]
};

struct ScaledKernels {
    // Computes totals[token - begin][16] of one panel.
    void (*multiply)(const ScaledProduct &, std::int64_t panel, std::int64_t begin, std::int64_t end, float *totals);
    // Quantises a row of x.
    void (*quantize)(const float *x, std::int64_t columns, std::int8_t *codes, float *scale);
};

}  // namespace antiphon
