#include "quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "vector.h"

namespace antiphon {
namespace {

constexpr int kColumns = 32, kEightBits = 8, kFourBits = 3;  // GGUF type ids
constexpr int kRanges = 12;                                  // that are tried for a group of Q4_1

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

struct Fit {
    float codes[kColumns], scale, minimum, error;
};

void round_codes(const float *x, float inverse, Fit &fit) {
    for (int i = 0; i < kColumns; ++i) {
        // The sum with 1.5 * 2^23 rounds to an integer.
        const float steps = std::min(std::max((x[i] - fit.minimum) * inverse, 0.0f), 15.0f);
        fit.codes[i] = (steps + 12582912.0f) - 12582912.0f;
    }
}

// The squared error of codes for the rounded scale and minimum that the file can hold.
void measure(const float *x, Fit &fit) {
    std::uint8_t half[2];
    store_half(half, fit.scale);
    fit.scale = half_to_float(half);
    store_half(half, fit.minimum);
    fit.minimum = half_to_float(half);
    round_codes(x, fit.scale > 0 ? 1 / fit.scale : 0, fit);
    fit.error = 0;
    for (int i = 0; i < kColumns; ++i) {
        const float difference = fit.codes[i] * fit.scale + fit.minimum - x[i];
        fit.error += difference * difference;
    }
}

// Scale and minimum by least squares for the codes there are.
bool refit(const float *x, Fit &fit) {
    float codes = 0, squares = 0, values = 0, products = 0;
    for (int i = 0; i < kColumns; ++i) {
        codes += fit.codes[i];
        squares += fit.codes[i] * fit.codes[i];
        values += x[i];
        products += fit.codes[i] * x[i];
    }
    const float spread = kColumns * squares - codes * codes;
    if (spread <= 0) return false;
    fit.scale = (kColumns * products - codes * values) / spread;
    fit.minimum = (values - fit.scale * codes) / kColumns;
    return fit.scale > 0;
}

void four_bits(const float *x, std::uint8_t *block) {
    float low = x[0], high = x[0];
    for (int i = 1; i < kColumns; ++i) {
        low = std::min(low, x[i]);
        high = std::max(high, x[i]);
    }
    Fit best;
    best.scale = (high - low) / 15;
    best.minimum = low;
    measure(x, best);
    for (int range = 0; range < kRanges && high > low; ++range) {
        // From the whole range down to two steps less, which clips what lies far out.
        Fit fit;
        fit.minimum = low + (high - low) * (float(range % 3) / 30);
        round_codes(x, (15 + 0.6f * float(range / 3)) / (high - low), fit);
        if (!refit(x, fit)) continue;
        measure(x, fit);
        if (fit.error < best.error) best = fit;
    }
    store_half(block, best.scale);
    store_half(block + 2, best.minimum);
    for (int i = 0; i < kColumns / 2; ++i) {
        block[4 + i] = std::uint8_t(int(best.codes[i]) | int(best.codes[i + kColumns / 2]) << 4);
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
