// Elementary functions of eight floats, to a relative error of about 1e-6. A lane's result depends on that lane alone.

#pragma once

#include "base/vector.h"

namespace {

constexpr float kInfinity = __builtin_inff();

// Sums pairs of terms, pairs of pairs and so on: in a chain every term would wait for the previous term.
template <int first, int count, int size>
ANTIPHON_INLINE Lanes terms(const Lanes *powers, const float (&coefficients)[size]) {
    if constexpr (count == 1) {
        return splat_lanes(coefficients[first]);
    } else {
        constexpr int half = count > 8 ? 8 : count > 4 ? 4 : count > 2 ? 2 : 1;
        constexpr int power = half == 8 ? 3 : half == 4 ? 2 : half == 2 ? 1 : 0;
        return multiply_add(terms<first + half, count - half>(powers, coefficients), powers[power],
                            terms<first, half>(powers, coefficients));
    }
}
template <int count> ANTIPHON_INLINE Lanes polynomial(Lanes x, const float (&coefficients)[count]) {
    const Lanes square = x * x, fourth = square * square;
    const Lanes powers[] = {x, square, fourth, fourth * fourth};
    return terms<0, count>(powers, coefficients);
}

ANTIPHON_INLINE Lanes clamped(Lanes x, float low, float high) {
    return x < low ? splat_lanes(low) : (x > high ? splat_lanes(high) : x);
}

// e^x for x between these limits: 2^n · e^r with r within half of log 2.
constexpr float kLowestPower = -87.0f, kHighestPower = 88.7f;
ANTIPHON_INLINE Lanes exp_within(Lanes x) {
    constexpr float fitted[] = {1.0f, 1.0f, 0.5f, 0.166665763f, 0.041666463f, 0.00836320501f, 0.00139336882f};
    constexpr float rounding = 12582912.0f;  // 1.5 · 2^23: a number added to it is rounded to an integer
    const Lanes shifted = multiply_add(x, splat_lanes(1.44269504f), splat_lanes(rounding));
    const Lanes n = shifted - rounding;
    // log 2 in two parts, the first short enough that its product with n is exact.
    const Lanes r = multiply_add(n, splat_lanes(2.12194440e-4f), multiply_add(n, splat_lanes(-0.693359375f), x));
    const LaneInts power = (LaneInts)shifted << 23;
    return (Lanes)((LaneInts)polynomial(r, fitted) + power);
}
ANTIPHON_INLINE Lanes exp_lanes(Lanes x) {
    const Lanes value = exp_within(clamped(x, kLowestPower, kHighestPower));
    const Lanes bounded = x < kLowestPower ? Lanes{} : (x > kHighestPower ? splat_lanes(kInfinity) : value);
    return x == x ? bounded : x;
}
ANTIPHON_INLINE Floats exponential(Floats x) {
    return map([](Lanes lanes) -> Lanes { return exp_lanes(lanes); }, x);
}
ANTIPHON_INLINE float exponential(float x) {
    float lanes[kLanes];
    store(lanes, exponential(splat(x)));
    return lanes[0];
}

// Logarithm of positive, normal, finite x: e · log 2 + log(1 + f) with 1 + f between the square roots of 1/2 and 2.
ANTIPHON_INLINE Lanes log_lanes(Lanes x) {
    constexpr float fitted[] = {0.333333313f,  -0.249999896f, 0.200007081f,  -0.166684806f, 0.142499372f,
                                -0.124110505f, 0.116615109f,  -0.115712009f, 0.0714975372f};
    constexpr std::int32_t half_root = 0x3F3504F3;  // sqrt(1/2)
    const LaneInts bits = (LaneInts)x - half_root;
    const LaneInts exponent = bits >> 23;
    const Lanes f = (Lanes)((bits & 0x007FFFFF) + half_root) - 1.0f;
    const Lanes e = __builtin_convertvector(exponent, Lanes);
    const Lanes square = f * f;
    Lanes tail = polynomial(f, fitted) * square * f;
    tail = multiply_add(e, splat_lanes(-2.12194440e-4f), tail);
    tail = multiply_add(square, splat_lanes(-0.5f), tail);
    return multiply_add(e, splat_lanes(0.693359375f), f + tail);
}
ANTIPHON_INLINE Floats logarithm(Floats x) {
    return map([](Lanes lanes) -> Lanes { return log_lanes(lanes); }, x);
}
ANTIPHON_INLINE float logarithm(float x) {
    float lanes[kLanes];
    store(lanes, logarithm(splat(x)));
    return lanes[0];
}

ANTIPHON_INLINE Lanes absolute(Lanes x) { return (Lanes)((LaneInts)x & 0x7FFFFFFF); }

ANTIPHON_INLINE Lanes tanh_lanes(Lanes x) {
    constexpr float fitted[] = {-0.333333343f, 0.133333012f, -0.0539586246f, 0.0217636339f, -0.0083264038f, 0.00227270648f};
    const Lanes magnitude = absolute(x), square = x * x;
    const Lanes small = multiply_add(polynomial(square, fitted) * square, magnitude, magnitude);
    const Lanes large = 1.0f - 2.0f / (exp_lanes(magnitude + magnitude) + 1.0f);
    const Lanes value = magnitude < 0.6f ? small : large;
    return (Lanes)((LaneInts)value | ((LaneInts)x & std::int32_t(0x80000000)));
}
ANTIPHON_INLINE Floats hyperbolic_tangent(Floats x) {
    return map([](Lanes lanes) -> Lanes { return tanh_lanes(lanes); }, x);
}

// An angle minus the nearest multiple of π. The lowest bit of `multiple` is 1 if the multiple is odd: signs then change.
struct Angle {
    Lanes multiple, rest;
};
ANTIPHON_INLINE Angle reduced(Lanes x) {
    constexpr float rounding = 12582912.0f;  // 1.5 · 2^23
    const Lanes multiple = multiply_add(x, splat_lanes(0.318309886f), splat_lanes(rounding)), n = multiple - rounding;
    // π in three parts, the first two short enough that their products with n are exact.
    Lanes rest = multiply_add(n, splat_lanes(-3.140625f), x);
    rest = multiply_add(n, splat_lanes(-0.0009670257568f), rest);
    return {multiple, multiply_add(n, splat_lanes(-6.278329e-7f), rest)};
}

// Sine and cosine of angles between -π/2 and π/2.
ANTIPHON_INLINE Lanes near_sine(Lanes x) {
    constexpr float fitted[] = {-0.166666567f, 0.00833301712f, -0.000198069843f, 2.60068661e-6f};
    const Lanes square = x * x;
    return multiply_add(polynomial(square, fitted) * square, x, x);
}
ANTIPHON_INLINE Lanes near_cosine(Lanes x) {
    constexpr float series[] = {1.0f, -0.5f, 0.0416666667f, -0.00138888889f, 2.48015873e-5f, -2.75573192e-7f, 2.08767570e-9f};
    return polynomial(x * x, series);
}

// Probability below x in the normal distribution. The smaller side is e^(-x²/2) · g(|x|), where g is a fraction of two
// polynomials, to 5e-9. Their coefficients are positive: no precision is lost by cancellation.
ANTIPHON_INLINE Lanes normal_probability(Lanes x) {
    constexpr float above[] = {0.5f, 0.435452327f, 0.181134387f, 0.0399263088f, 0.00401165862f};
    constexpr float below[] = {1.0f, 1.66878957f, 1.19376612f, 0.463925421f, 0.100087884f, 0.0100555914f};
    constexpr float furthest = 13.1f;  // here the smaller side is 1e-38
    const Lanes magnitude = absolute(x);
    const Lanes z = magnitude < furthest ? magnitude : splat_lanes(furthest);
    const Lanes side = exp_within(z * z * -0.5f) * polynomial(z, above) / polynomial(z, below);
    return x > 0.0f ? 1.0f - side : side;
}

ANTIPHON_INLINE Floats gelu(Floats x) {
    return map([](Lanes lanes) -> Lanes { return lanes * normal_probability(lanes); }, x);
}
ANTIPHON_INLINE Floats gelu_tanh(Floats x) {
    // 1 + tanh(y) = 2 / (1 + e^(-2y)), which keeps its accuracy where tanh is near -1.
    return map([](Lanes lanes) -> Lanes {
        const Lanes inner = multiply_add(lanes * lanes * lanes, splat_lanes(0.044715f), lanes);
        return lanes / (1.0f + exp_lanes(inner * -1.59576912f));
    }, x);
}
ANTIPHON_INLINE Floats silu(Floats x) {
    return map([](Lanes lanes) -> Lanes { return lanes / (1.0f + exp_lanes(-lanes)); }, x);
}
ANTIPHON_INLINE Floats relu(Floats x) {
    return map([](Lanes lanes) -> Lanes { return lanes > 0.0f ? lanes : (lanes == lanes ? Lanes{} : lanes); }, x);
}

}  // namespace
