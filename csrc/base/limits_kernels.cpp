// Loops that only read, or only multiply and add. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "base/limits.h"

#include "base/vector.h"

namespace antiphon {
namespace {

constexpr int kChains = 8;  // independent sums

float read(const char *data, std::size_t bytes) {
    Floats totals[8];
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) totals[c] = zeros();
    const float *values = reinterpret_cast<const float *>(data);
    for (std::size_t i = 0; i < bytes / sizeof(float); i += 8 * kLanes) {
#pragma GCC unroll 8
        for (int c = 0; c < 8; ++c) totals[c] = totals[c] + load(values + i + c * kLanes);
    }
    Floats all = zeros();
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) all = all + totals[c];
    return sum(all);
}

float multiply(std::int64_t rounds) {
    Floats totals[kChains];
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) totals[c] = zeros();
    const Floats x = splat(float(rounds)), w = splat(1e-9f);
    for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 8
        for (int c = 0; c < kChains; ++c) totals[c] = multiply_add(x, w, totals[c]);
    }
    Floats all = zeros();
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) all = all + totals[c];
    return sum(all);
}

}  // namespace

namespace ANTIPHON_VARIANT {

extern const LimitKernels limits;
const LimitKernels limits = {read, multiply, kChains * kLanes};

}  // namespace ANTIPHON_VARIANT
}  // namespace antiphon
