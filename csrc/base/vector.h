// Eight-lane float vectors over whatever the compiler targets: NEON, AVX2, or 16-byte generic vectors.
//
// This header is compiled once per instruction set, so everything in it has internal linkage.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define ANTIPHON_INLINE static inline __attribute__((always_inline))
#define ANTIPHON_INLINE_MEMBER inline __attribute__((always_inline))

namespace {

typedef float Float4 __attribute__((vector_size(16)));
typedef std::uint8_t Bytes8 __attribute__((vector_size(8)));
typedef std::int8_t Int8x8 __attribute__((vector_size(8)));

constexpr int kLanes = 8;

#if defined(__AVX2__)
struct Floats {
    __m256 all;
};
#else
struct Floats {
    Float4 low, high;
};
#endif

ANTIPHON_INLINE Bytes8 load_bytes(const std::uint8_t *source) {
    Bytes8 bytes;
    std::memcpy(&bytes, source, sizeof bytes);
    return bytes;
}

ANTIPHON_INLINE Bytes8 splat_bytes(std::uint8_t value) { return Bytes8{} + value; }

#if defined(__AVX2__)

ANTIPHON_INLINE Floats zeros() { return {_mm256_setzero_ps()}; }
ANTIPHON_INLINE Floats splat(float value) { return {_mm256_set1_ps(value)}; }
ANTIPHON_INLINE Floats load(const float *source) { return {_mm256_loadu_ps(source)}; }
ANTIPHON_INLINE void store(float *target, Floats value) { _mm256_storeu_ps(target, value.all); }
ANTIPHON_INLINE Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.all, b.all)}; }
ANTIPHON_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.all, b.all, c.all)}; }

ANTIPHON_INLINE __m128i low_lanes(const void *bytes) {
    return _mm_loadl_epi64(static_cast<const __m128i *>(bytes));
}
ANTIPHON_INLINE Floats to_floats(Bytes8 bytes) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low_lanes(&bytes)))};
}
ANTIPHON_INLINE Floats to_floats(Int8x8 bytes) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low_lanes(&bytes)))};
}

#elif defined(__aarch64__)

ANTIPHON_INLINE Floats zeros() { return {vdupq_n_f32(0), vdupq_n_f32(0)}; }
ANTIPHON_INLINE Floats splat(float value) { return {vdupq_n_f32(value), vdupq_n_f32(value)}; }
ANTIPHON_INLINE Floats load(const float *source) { return {vld1q_f32(source), vld1q_f32(source + 4)}; }
ANTIPHON_INLINE void store(float *target, Floats value) {
    vst1q_f32(target, value.low);
    vst1q_f32(target + 4, value.high);
}
ANTIPHON_INLINE Floats operator*(Floats a, Floats b) { return {a.low * b.low, a.high * b.high}; }
ANTIPHON_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
    return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}
ANTIPHON_INLINE Floats to_floats(Bytes8 bytes) {
    const uint16x8_t wide = vmovl_u8((uint8x8_t)bytes);
    return {vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide))), vcvtq_f32_u32(vmovl_high_u16(wide))};
}
ANTIPHON_INLINE Floats to_floats(Int8x8 bytes) {
    const int16x8_t wide = vmovl_s8((int8x8_t)bytes);
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), vcvtq_f32_s32(vmovl_high_s16(wide))};
}

#else

ANTIPHON_INLINE Floats zeros() { return {Float4{}, Float4{}}; }
ANTIPHON_INLINE Floats splat(float value) { return {Float4{} + value, Float4{} + value}; }
ANTIPHON_INLINE Floats load(const float *source) {
    Floats value;
    std::memcpy(&value, source, sizeof value);
    return value;
}
ANTIPHON_INLINE void store(float *target, Floats value) { std::memcpy(target, &value, sizeof value); }
ANTIPHON_INLINE Floats operator*(Floats a, Floats b) { return {a.low * b.low, a.high * b.high}; }
ANTIPHON_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
    return {a.low * b.low + c.low, a.high * b.high + c.high};
}
template <class Bytes> ANTIPHON_INLINE Floats to_floats(Bytes bytes) {
    return {Float4{float(bytes[0]), float(bytes[1]), float(bytes[2]), float(bytes[3])},
            Float4{float(bytes[4]), float(bytes[5]), float(bytes[6]), float(bytes[7])}};
}

#endif

#if defined(__AVX2__)
typedef __m256 Lanes;
#else
typedef Float4 Lanes;
#endif
typedef std::int32_t LaneInts __attribute__((vector_size(sizeof(Lanes))));

// Applies a function of `Lanes`, one machine vector, to all of `Floats`.
#if defined(__AVX2__)
template <class F> ANTIPHON_INLINE Floats map(F f, Floats a) { return {f(a.all)}; }
template <class F> ANTIPHON_INLINE Floats map(F f, Floats a, Floats b) { return {f(a.all, b.all)}; }
#else
template <class F> ANTIPHON_INLINE Floats map(F f, Floats a) { return {f(a.low), f(a.high)}; }
template <class F> ANTIPHON_INLINE Floats map(F f, Floats a, Floats b) { return {f(a.low, b.low), f(a.high, b.high)}; }
#endif

ANTIPHON_INLINE Lanes multiply_add(Lanes a, Lanes b, Lanes c) {
#if defined(__AVX2__)
    return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
    return vfmaq_f32(c, a, b);
#else
    return a * b + c;
#endif
}

ANTIPHON_INLINE Lanes splat_lanes(float value) { return Lanes{} + value; }

ANTIPHON_INLINE Floats operator+(Floats a, Floats b) {
    return map([](Lanes x, Lanes y) -> Lanes { return x + y; }, a, b);
}
ANTIPHON_INLINE Floats operator-(Floats a, Floats b) {
    return map([](Lanes x, Lanes y) -> Lanes { return x - y; }, a, b);
}
ANTIPHON_INLINE Floats operator/(Floats a, Floats b) {
    return map([](Lanes x, Lanes y) -> Lanes { return x / y; }, a, b);
}
ANTIPHON_INLINE Floats maximum(Floats a, Floats b) {
#if defined(__AVX2__)
    return {_mm256_max_ps(a.all, b.all)};
#elif defined(__aarch64__)
    return {vmaxq_f32(a.low, b.low), vmaxq_f32(a.high, b.high)};
#else
    return {a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
#endif
}

// Loads `count` elements, followed by zeros.
ANTIPHON_INLINE Floats load_part(const float *source, int count) {
    float lanes[kLanes] = {};
    std::memcpy(lanes, source, count * sizeof(float));
    return load(lanes);
}
ANTIPHON_INLINE void store_part(float *target, Floats value, int count) {
    float lanes[kLanes];
    store(lanes, value);
    std::memcpy(target, lanes, count * sizeof(float));
}

// Number of elements to load or store, as an argument: `Whole` is a constant, so full vectors cost no test.
struct Whole {
    ANTIPHON_INLINE_MEMBER Floats load(const float *source) const { return ::load(source); }
    ANTIPHON_INLINE_MEMBER void store(float *target, Floats value) const { ::store(target, value); }
};
struct Rest {
    int count;
    ANTIPHON_INLINE_MEMBER Floats load(const float *source) const { return load_part(source, count); }
    ANTIPHON_INLINE_MEMBER void store(float *target, Floats value) const { store_part(target, value, count); }
};

ANTIPHON_INLINE float largest(Floats value) {
#if defined(__aarch64__)
    return vmaxvq_f32(vmaxq_f32(value.low, value.high));
#else
    float lanes[kLanes];
    store(lanes, value);
    float found = lanes[0];
    for (int lane = 1; lane < kLanes; ++lane) found = lanes[lane] > found ? lanes[lane] : found;
    return found;
#endif
}

// Sum of the lanes, always in the same order.
ANTIPHON_INLINE float sum(Floats value) {
    float lanes[kLanes];
    store(lanes, value);
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// Sums of the lanes of four vectors, each always in the same order.
ANTIPHON_INLINE Float4 sums(Floats a, Floats b, Floats c, Floats d) {
#if defined(__AVX2__)
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a.all, b.all), _mm256_hadd_ps(c.all, d.all));
    return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
#elif defined(__aarch64__)
    return vpaddq_f32(vpaddq_f32(a.low + a.high, b.low + b.high), vpaddq_f32(c.low + c.high, d.low + d.high));
#else
    return Float4{sum(a), sum(b), sum(c), sum(d)};
#endif
}

ANTIPHON_INLINE float bits_to_float(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

ANTIPHON_INLINE float half_to_float(const std::uint8_t *source) {
    std::uint16_t half;
    std::memcpy(&half, source, sizeof half);
#if defined(__aarch64__)
    __fp16 value;
    std::memcpy(&value, &half, sizeof value);
    return value;
#elif defined(__F16C__)
    return _cvtsh_ss(half);
#else
    // Scaling by 2^112 moves the exponent's bias from 15 to 127 and normalises subnormals on the way.
    const std::uint32_t magnitude = std::uint32_t(half & 0x7FFF) << 13;
    const std::uint32_t sign = std::uint32_t(half & 0x8000) << 16;
    const float scaled = magnitude >= 0x0F800000u ? bits_to_float(magnitude | 0x7F800000u)
                                                  : bits_to_float(magnitude) * bits_to_float(0x77800000u);
    std::uint32_t bits;
    std::memcpy(&bits, &scaled, sizeof bits);
    return bits_to_float(bits | sign);
#endif
}

ANTIPHON_INLINE Floats load_halves(const std::uint8_t *source) {
#if defined(__aarch64__)
    const float16x8_t halves = vreinterpretq_f16_u8(vld1q_u8(source));
    return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
#elif defined(__F16C__)
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(source)))};
#else
    float lanes[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = half_to_float(source + 2 * lane);
    return load(lanes);
#endif
}

ANTIPHON_INLINE Floats load_brain_floats(const std::uint8_t *source) {
#if defined(__aarch64__)
    const uint16x8_t halves = vreinterpretq_u16_u8(vld1q_u8(source));
    return {(Float4)vshll_n_u16(vget_low_u16(halves), 16), (Float4)vshll_high_n_u16(halves, 16)};
#elif defined(__AVX2__)
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i *>(source));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16))};
#else
    std::uint16_t halves[kLanes];
    float lanes[kLanes];
    std::memcpy(halves, source, sizeof halves);
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = bits_to_float(std::uint32_t(halves[lane]) << 16);
    return load(lanes);
#endif
}

ANTIPHON_INLINE std::uint32_t float_to_bits(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// Rounds to the nearest, ties to even, like all conversions here.
ANTIPHON_INLINE std::uint16_t float_to_half(float value) {
#if defined(__aarch64__)
    const __fp16 half = __fp16(value);
    std::uint16_t bits;
    std::memcpy(&bits, &half, sizeof bits);
    return bits;
#elif defined(__F16C__)
    return std::uint16_t(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
#else
    const std::uint32_t sign = float_to_bits(value) >> 16 & 0x8000u, magnitude = float_to_bits(value) & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return std::uint16_t(sign | 0x7E00u);
    if (magnitude >= 0x47800000u) return std::uint16_t(sign | 0x7C00u);
    // Below 2^-14 the sum with 0.5 leaves the subnormal's bits, rounded, at the end of the fraction.
    if (magnitude < 0x38800000u) return std::uint16_t(sign | (float_to_bits(bits_to_float(magnitude) + 0.5f) - 0x3F000000u));
    return std::uint16_t(sign | ((magnitude - 0x38000000u + 0xFFFu + (magnitude >> 13 & 1u)) >> 13));
#endif
}

ANTIPHON_INLINE std::uint16_t float_to_brain_float(float value) {
    const std::uint32_t bits = float_to_bits(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return std::uint16_t(bits >> 16 | 0x40u);
    return std::uint16_t((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace
