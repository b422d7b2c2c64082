// Writing keys and values to pages. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "attention/kernels.h"

#include "base/vector.h"

namespace antiphon {
namespace {

void store_int8(std::int64_t head_dim, const float *row, const float *balance, std::uint8_t *target,
                std::uint8_t *scales) {
    for (std::int64_t begin = 0; begin < head_dim; begin += kScaleChannels) {
        float values[kScaleChannels];
        for (int i = 0; i < kScaleChannels; ++i) values[i] = balance ? row[begin + i] / balance[begin + i] : row[begin + i];
        float top = 0;
        for (const float value : values) {
            const float magnitude = value < 0 ? -value : value;
            top = magnitude > top ? magnitude : top;
        }
        const std::uint16_t half = float_to_half(top / 127);
        std::memcpy(scales + begin / kScaleChannels * 2, &half, sizeof half);
        const float scale = half_to_float(reinterpret_cast<const std::uint8_t *>(&half));
        const float inverse = scale > 0 ? 1.0f / scale : 0;
        for (int i = 0; i < kScaleChannels; ++i) {
            constexpr float rounding = 12582912.0f;  // 1.5 · 2^23
            float value = values[i] * inverse;
            value = value > 127 ? 127 : value < -127 ? -127 : value;
            target[begin + i] = std::uint8_t(std::int8_t(value + rounding - rounding));
        }
    }
}

// Without branches, so that compilers vectorise the loop.
template <class Round>
ANTIPHON_INLINE void store_rounded(const float *row, std::int64_t count, std::uint8_t *target, Round round) {
    for (std::int64_t i = 0; i < count; ++i) {
        const std::uint16_t bits = round(row[i]);
        std::memcpy(target + 2 * i, &bits, sizeof bits);
    }
}

}  // namespace

namespace ANTIPHON_VARIANT {

void store_row(const Region &region, std::int64_t head_dim, std::int64_t block_offset, std::int64_t head,
               std::int64_t token, const float *row) {
    std::uint8_t *target = region.base + block_offset + head * region.head_stride + token * region.token_stride;
    if (region.element == Element::f32) {
        std::memcpy(target, row, head_dim * sizeof(float));
    } else if (region.element == Element::i8) {
        store_int8(head_dim, row, region.balance ? region.balance + head * head_dim : nullptr, target,
                   region.scale_base + block_offset + head * region.scale_head_stride + token * region.scale_token_stride);
    } else if (region.element == Element::f16) {
        store_rounded(row, head_dim, target, [](float value) { return float_to_half(value); });
    } else {
        store_rounded(row, head_dim, target, [](float value) { return float_to_brain_float(value); });
    }
}

}  // namespace ANTIPHON_VARIANT

}  // namespace antiphon
