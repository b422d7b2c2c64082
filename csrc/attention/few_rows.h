// Attention for the few rows of one decoding query: keys and values are converted in registers and used there.
//
// The arithmetic equals many_rows.h: a product is the sum of eight lanes that run over the channels in order, and a row's
// values are added key by key. Compiled once per instruction set, so everything here has internal linkage.

#pragma once

#include <type_traits>

#include "attention/kernels.h"
#include "base/vector.h"

namespace antiphon {
namespace {

constexpr int kFewRows = 4;  // rows held in registers together

// Consecutive tokens of one block and head in their stored form.
struct StoredTokens {
    const std::uint8_t *data, *scales;
    std::int64_t stride, scale_stride;
};

// Loads channels [i, i + 8) of a token.
template <Element element> ANTIPHON_INLINE Floats load_channels(const StoredTokens &tokens, std::int64_t token, std::int64_t i) {
    const std::uint8_t *const source = tokens.data + token * tokens.stride;
    if constexpr (element == Element::f16) {
        return load_halves(source + 2 * i);
    } else if constexpr (element == Element::bf16) {
        return load_brain_floats(source + 2 * i);
    } else if constexpr (element == Element::i8) {
        const std::uint8_t *const scales = tokens.scales + token * tokens.scale_stride;
        return to_floats((Int8x8)load_bytes(source + i)) * splat(half_to_float(scales + i / kScaleChannels * 2));
    } else {
        return load(reinterpret_cast<const float *>(source) + i);
    }
}

// Computes scores[row][key] for `count` keys; overwrites up to three elements after them.
template <Element element, int rows>
void score_keys(const float *q, std::int64_t width, const StoredTokens &keys, std::int64_t count, float *scores,
                std::int64_t score_stride) {
    for (std::int64_t k = 0; k < count; k += 4) {
        Floats totals[rows][4];
#pragma GCC unroll 2
        for (int pair = 0; pair < 4; pair += 2) {
            const std::int64_t first = k + pair < count ? k + pair : count - 1;
            const std::int64_t second = k + pair + 1 < count ? k + pair + 1 : count - 1;
            Floats even[rows], odd[rows];
            for (int r = 0; r < rows; ++r) even[r] = odd[r] = zeros();
            for (std::int64_t i = 0; i < width; i += kLanes) {
                const Floats one = load_channels<element>(keys, first, i), other = load_channels<element>(keys, second, i);
#pragma GCC unroll 4
                for (int r = 0; r < rows; ++r) {
                    const Floats query = load(q + r * width + i);
                    even[r] = multiply_add(query, one, even[r]);
                    odd[r] = multiply_add(query, other, odd[r]);
                }
            }
            for (int r = 0; r < rows; ++r) {
                totals[r][pair] = even[r];
                totals[r][pair + 1] = odd[r];
            }
        }
        for (int r = 0; r < rows; ++r) {
            const Float4 products = sums(totals[r][0], totals[r][1], totals[r][2], totals[r][3]);
            std::memcpy(scores + r * score_stride + k, &products, sizeof products);
        }
    }
}

// sums[row] += weights[row] · values for `vectors` vectors of channels from `i` on.
template <Element element, int rows, int vectors>
ANTIPHON_INLINE void weigh_channels(const StoredTokens &values, std::int64_t count, std::int64_t i, const float *weights,
                                    std::int64_t weight_stride, float *sums, std::int64_t sums_stride) {
    Floats local[rows][vectors];
    for (int r = 0; r < rows; ++r) {
        for (int v = 0; v < vectors; ++v) local[r][v] = load(sums + r * sums_stride + i + v * kLanes);
    }
    for (std::int64_t k = 0; k < count; ++k) {
        Floats weight[rows];
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) weight[r] = splat(weights[r * weight_stride + k]);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
            const Floats value = load_channels<element>(values, k, i + v * kLanes);
#pragma GCC unroll 4
            for (int r = 0; r < rows; ++r) local[r][v] = multiply_add(weight[r], value, local[r][v]);
        }
    }
    for (int r = 0; r < rows; ++r) {
        for (int v = 0; v < vectors; ++v) store(sums + r * sums_stride + i + v * kLanes, local[r][v]);
    }
}

template <Element element, int rows>
void weigh_values(const StoredTokens &values, std::int64_t width, std::int64_t count, const float *weights,
                  std::int64_t weight_stride, float *sums, std::int64_t sums_stride) {
    constexpr int vectors = rows == 1 ? 8 : rows == 2 ? 4 : 2;
    std::int64_t i = 0;
    for (; i + vectors * kLanes <= width; i += vectors * kLanes) {
        weigh_channels<element, rows, vectors>(values, count, i, weights, weight_stride, sums, sums_stride);
    }
    for (; i < width; i += kLanes) {
        weigh_channels<element, rows, 1>(values, count, i, weights, weight_stride, sums, sums_stride);
    }
}

// Calls visit with the element and each handful of `rows` rows as constants: visit(element, count, first row).
template <Element element, class Visit> void for_each_handful(std::int64_t rows, Visit visit) {
    constexpr std::integral_constant<Element, element> kind{};
    std::int64_t row = 0;
    for (; rows - row >= kFewRows; row += kFewRows) visit(kind, std::integral_constant<int, kFewRows>{}, row);
    switch (rows - row) {
    case 3: visit(kind, std::integral_constant<int, 3>{}, row); break;
    case 2: visit(kind, std::integral_constant<int, 2>{}, row); break;
    case 1: visit(kind, std::integral_constant<int, 1>{}, row); break;
    default: break;
    }
}

template <class Visit> void for_each_handful(Element element, std::int64_t rows, Visit visit) {
    switch (element) {
    case Element::f32: return for_each_handful<Element::f32>(rows, visit);
    case Element::f16: return for_each_handful<Element::f16>(rows, visit);
    case Element::bf16: return for_each_handful<Element::bf16>(rows, visit);
    case Element::i8: return for_each_handful<Element::i8>(rows, visit);
    }
}

}  // namespace
}  // namespace antiphon
