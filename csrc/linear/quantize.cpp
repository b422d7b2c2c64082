#include "linear/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/vector.h"

namespace antiphon {
namespace {

constexpr int kColumns = 32, kEightBits = 8, kFourBits = 3;  // GGUF type ids
constexpr int kRanges = 12;                                  // ranges that are tried for a group of Q4_1

void store_half(std::uint8_t *target, float value) {
    const std::uint16_t half = float_to_half(std::clamp(value, -65504.0f, 65504.0f));
    std::memcpy(target, &half, sizeof half);
}

void eight_bits(const float *x, std::uint8_t *block) {
    float largest = 0;
    for (int i = 0; i < kColumns; ++i) largest = std::max(largest, std::fabs(x[i]));
    store_half(block, largest / 127);
    const float scale = half_to_float(block);
    const float inverse = scale > 0 ? 1 / scale : 0;
    for (int i = 0; i < kColumns; ++i) {
        const float code = std::clamp(std::nearbyint(x[i] * inverse), -127.0f, 127.0f);
        block[2 + i] = std::uint8_t(std::int8_t(code));
    }
}

constexpr int kVectors = kColumns / kLanes;

struct Fit {
    Floats codes[kVectors];
    float scale, minimum, error;
};

// Computes codes for the fit's minimum and a scale of 1 / inverse. The sum with 1.5 * 2^23 rounds to an integer.
ANTIPHON_INLINE void round_codes(const Floats *x, float inverse, Fit &fit) {
    const Floats magic = splat(12582912.0f), most = splat(-15);
    for (int i = 0; i < kVectors; ++i) {
        const Floats steps = maximum((x[i] - splat(fit.minimum)) * splat(inverse), zeros());
        fit.codes[i] = (zeros() - maximum(zeros() - steps, most) + magic) - magic;
    }
}

// Rounds scale and minimum to the 16-bit floats of a block, and computes the squared error of the codes.
ANTIPHON_INLINE void measure(const Floats *x, Fit &fit) {
    std::uint8_t half[2];
    store_half(half, fit.scale);
    fit.scale = half_to_float(half);
    store_half(half, fit.minimum);
    fit.minimum = half_to_float(half);
    round_codes(x, fit.scale > 0 ? 1 / fit.scale : 0, fit);
    Floats error = zeros();
    for (int i = 0; i < kVectors; ++i) {
        const Floats difference = fit.codes[i] * splat(fit.scale) + splat(fit.minimum) - x[i];
        error = error + difference * difference;
    }
    fit.error = sum(error);
}

// Fits scale and minimum to the current codes by least squares.
ANTIPHON_INLINE bool refit(const Floats *x, float values, Fit &fit) {
    Floats code_lanes = zeros(), square_lanes = zeros(), product_lanes = zeros();
    for (int i = 0; i < kVectors; ++i) {
        code_lanes = code_lanes + fit.codes[i];
        square_lanes = square_lanes + fit.codes[i] * fit.codes[i];
        product_lanes = product_lanes + fit.codes[i] * x[i];
    }
    const float codes = sum(code_lanes), spread = kColumns * sum(square_lanes) - codes * codes;
    if (spread <= 0) return false;
    fit.scale = (kColumns * sum(product_lanes) - codes * values) / spread;
    fit.minimum = (values - fit.scale * codes) / kColumns;
    return fit.scale > 0;
}

void four_bits(const float *values, std::uint8_t *block) {
    Floats x[kVectors], total = zeros();
    for (int i = 0; i < kVectors; ++i) {
        x[i] = load(values + kLanes * i);
        total = total + x[i];
    }
    const float high = largest(maximum(maximum(x[0], x[1]), maximum(x[2], x[3])));
    const float low =
        -largest(maximum(maximum(zeros() - x[0], zeros() - x[1]), maximum(zeros() - x[2], zeros() - x[3])));
    Fit best;
    best.scale = (high - low) / 15;
    best.minimum = low;
    measure(x, best);
    for (int range = 0; range < kRanges && high > low; ++range) {
        // From the whole range down to two steps less, which clips outliers.
        Fit fit;
        fit.minimum = low + (high - low) * (float(range % 3) / 30);
        round_codes(x, (15 + 0.6f * float(range / 3)) / (high - low), fit);
        if (!refit(x, sum(total), fit)) continue;
        measure(x, fit);
        if (fit.error < best.error) best = fit;
    }
    store_half(block, best.scale);
    store_half(block + 2, best.minimum);
    float codes[kColumns];
    for (int i = 0; i < kVectors; ++i) store(codes + kLanes * i, best.codes[i]);
    for (int i = 0; i < kColumns / 2; ++i) {
        block[4 + i] = std::uint8_t(int(codes[i]) | int(codes[i + kColumns / 2]) << 4);
    }
}

}  // namespace

bool quantizes_to(int type) { return type == kEightBits || type == kFourBits; }

std::size_t quantized_row_bytes(int type, std::int64_t columns) {
    return std::size_t(columns / kColumns) * (type == kEightBits ? 34 : 20);
}

void quantize_row(int type, const float *row, std::int64_t columns, std::uint8_t *out) {
    for (std::int64_t i = 0; i < columns; i += kColumns) {
        if (type == kEightBits) {
            eight_bits(row + i, out);
            out += 34;
        } else {
            four_bits(row + i, out);
            out += 20;
        }
    }
}

}  // namespace antiphon
