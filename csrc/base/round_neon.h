// Floats rounded to int8 codes with a scale, sixteen at a time, for ARM. Files are compiled for different
// instruction sets and each has its own copy, so everything here has internal linkage.

#pragma once

#include <arm_neon.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace antiphon {
namespace {

struct Rounding {
    float scale, inverse;
    bool is_finite;
    // `bits` are those of the largest magnitude. The scale is NaN if that is not finite, and 0 below 2^-100.
    explicit Rounding(std::uint32_t bits) {
        float most;
        std::memcpy(&most, &bits, sizeof most);
        is_finite = bits < 0x7F800000u;
        const bool is_zero = bits < 0x0D800000u;
        scale = !is_finite ? NAN : is_zero ? 0.0f : most / 127.0f;
        inverse = !is_finite || is_zero ? 0.0f : 127.0f / most;
    }
};

inline uint32x4_t larger(uint32x4_t most, const float *x) {
    return vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x))));
}

// Rounds sixteen numbers to codes.
inline int8x16_t round_16(const float *x, float32x4_t first, float32x4_t second, float32x4_t third, float32x4_t fourth) {
    const int16x8_t low = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(vld1q_f32(x) * first)),
                                       vmovn_s32(vcvtnq_s32_f32(vld1q_f32(x + 4) * second)));
    const int16x8_t high = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(vld1q_f32(x + 8) * third)),
                                        vmovn_s32(vcvtnq_s32_f32(vld1q_f32(x + 12) * fourth)));
    return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}
inline int8x16_t round_16(const float *x, const Rounding &by) {
    const float32x4_t inverse = vdupq_n_f32(by.inverse);
    return by.is_finite ? round_16(x, inverse, inverse, inverse, inverse) : vdupq_n_s8(0);
}

}  // namespace
}  // namespace antiphon
