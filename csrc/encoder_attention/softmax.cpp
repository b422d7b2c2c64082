// Conversion of scores to rounded weights. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "encoder_attention/softmax.h"

#include "base/functions.h"

namespace antiphon {
namespace {

constexpr int kWidth = sizeof(Lanes) / sizeof(float), kVectors = kPackedGroup / kWidth;

ANTIPHON_INLINE Lanes load_lanes(const float *source) {
    Lanes lanes;
    std::memcpy(&lanes, source, sizeof lanes);
    return lanes;
}

// Maximum of x and low; NaN stays NaN, since the comparison then selects `x`.
ANTIPHON_INLINE Lanes at_least(Lanes x, Lanes low) {
#if defined(__aarch64__)
    return vmaxq_f32(x, low);
#else
    return low > x ? low : x;
#endif
}

// 2^x / 0.0551716238 for x >= -100, to about 1e-4, a hundredth of the error of rounding to a code: a cubic divided by its
// first coefficient, as a product of two terms.
ANTIPHON_INLINE Lanes scaled_power(Lanes x) {
    constexpr float rounding = 12582912.0f;  // 1.5 · 2^23: a number added to it is rounded to an integer
    const Lanes shifted = x + rounding, f = x - (shifted - rounding);
    const Lanes square = multiply_add(f, splat_lanes(2.05904914f), f * f) + 7.75077703f;
    return (Lanes)((LaneInts)((f + 2.33834046f) * square) + ((LaneInts)shifted << 23));
}
constexpr float kMostPower = 2.80875494f;  // x for which `scaled_power` is 127

// Stores a group's codes, which are the lowest bits of `codes`, as bytes, and the sums of its halves.
ANTIPHON_INLINE void store_codes(const LaneInts (&codes)[kVectors], std::int8_t *target, std::int16_t *half_sums) {
#if defined(__aarch64__)
    for (int h = 0; h < 2; ++h) {
        const int32x4_t *const own = (const int32x4_t *)codes + 4 * h;
        const int16x8_t low = vcombine_s16(vmovn_s32(own[0]), vmovn_s32(own[1]));
        const int16x8_t high = vcombine_s16(vmovn_s32(own[2]), vmovn_s32(own[3]));
        vst1q_s8(target + 16 * h, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
        half_sums[h] = vaddvq_s16(low + high);
    }
#else
    std::uint32_t values[kPackedGroup];
    std::memcpy(values, codes, sizeof values);
    for (int h = 0; h < 2; ++h) {
        std::int32_t total = 0;
        for (int i = 16 * h; i < 16 * h + 16; ++i) {
            target[i] = std::int8_t(values[i] & 127);
            total += values[i] & 127;
        }
        half_sums[h] = std::int16_t(total);
    }
#endif
}

}  // namespace

namespace ANTIPHON_VARIANT {

static float soften(float *scores, std::int64_t count, float scale, const Activations &weights, std::int64_t token) {
    constexpr float rounding = 12582912.0f, log2_of_e = 1.44269504f;
    const std::int64_t groups = weights.groups();
    float *const scales = weights.scales + token * groups;  // first holds the groups' largest scores
    float *const offsets = weights.offsets + token * groups;
    std::int16_t *const half_sums = weights.half_sums + token * groups * 2;
    std::int8_t *const codes = weights.codes + token * weights.stride;
    for (std::int64_t i = count; i < weights.columns; ++i) scores[i] = -kInfinity;
    float top = -kInfinity;
    for (std::int64_t g = 0; g < groups; ++g) {
        const float *const group = scores + g * kPackedGroup;
        const float own = largest(maximum(maximum(load(group), load(group + kLanes)),
                                          maximum(load(group + 2 * kLanes), load(group + 3 * kLanes))));
        scales[g] = own;
        top = own > top || own != own ? own : top;
    }
    for (std::int64_t g = 0; g < groups; g += kLanes) {  // `offsets` holds the scales until the sums are known
        const int part = int(groups - g < kLanes ? groups - g : kLanes);
        const Floats above = (load_part(scales + g, part) - splat(top)) * splat(scale);
        store_part(offsets + g, exponential(above) * splat(1.0f / 127.0f), part);
    }
    const float by = scale * log2_of_e;
    float total = 0;
    for (std::int64_t g = 0; g < groups; ++g) {
        const float *const group = scores + g * kPackedGroup;
        const Lanes most = splat_lanes(scales[g]);
        LaneInts rounded[kVectors];
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
            const Lanes below = load_lanes(group + v * kWidth) - most;
            const Lanes power = multiply_add(below, splat_lanes(by), splat_lanes(kMostPower));
            rounded[v] = (LaneInts)(scaled_power(at_least(power, splat_lanes(-100.0f))) + rounding);
        }
        store_codes(rounded, codes + g * kPackedGroup, half_sums + 2 * g);
        scales[g] = offsets[g];
        offsets[g] *= float(half_sums[2 * g] + half_sums[2 * g + 1]);
        total += offsets[g];
    }
    return total;
}

static float exponentiate(float *scores, std::int64_t count, std::int64_t columns, float scale) {
    constexpr float log2_of_e = 1.44269504f, one = -4.17993026f;  // x for which `scaled_power` is 1
    for (std::int64_t i = count; i < columns; ++i) scores[i] = -kInfinity;
    Floats most = splat(-kInfinity);
    for (std::int64_t i = 0; i < columns; i += kLanes) most = maximum(most, load(scores + i));
    const float by = scale * log2_of_e;
    const Lanes top = splat_lanes(largest(most));
    Floats total = zeros();
    for (std::int64_t i = 0; i < columns; i += kLanes) {
        const auto weigh = [&](Lanes score) __attribute__((always_inline)) -> Lanes {
            const Lanes power = multiply_add(score - top, splat_lanes(by), splat_lanes(one));
            return scaled_power(at_least(power, splat_lanes(-100.0f)));
        };
        const Floats weights = map(weigh, load(scores + i));
        store(scores + i, weights);
        total = total + weights;
    }
    for (std::int64_t i = count; i < columns; ++i) scores[i] = 0;
    return sum(total);
}

extern const SoftmaxKernels softmax;
const SoftmaxKernels softmax = {soften, exponentiate};

}  // namespace ANTIPHON_VARIANT
}  // namespace antiphon
