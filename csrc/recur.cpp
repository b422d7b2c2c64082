// An LSTM layer. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "rows.h"

#include "functions.h"

namespace antiphon {
namespace {

constexpr int kVectors = kRecurrentPanel / kLanes;  // of a panel, whose sums are in registers together

ANTIPHON_INLINE Floats sigmoid(Floats x) {
    return map([](Lanes lanes) -> Lanes { return 1.0f / (1.0f + exp_lanes(-lanes)); }, x);
}

// gates = inputs + weights · h, each gate's sum over the channels in ascending order.
void add_recurrent(const Recurrence &r, const float *inputs, const float *h, float *gates) {
    const float *weights = r.panels;
    for (std::int64_t gate = 0; gate < 4 * r.hidden; gate += kRecurrentPanel) {
        Floats totals[kVectors];
        for (int v = 0; v < kVectors; ++v) totals[v] = load(inputs + gate + v * kLanes);
        for (std::int64_t k = 0; k < r.hidden; ++k, weights += kRecurrentPanel) {
            const Floats value = splat(h[k]);
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) totals[v] = multiply_add(load(weights + v * kLanes), value, totals[v]);
        }
        for (int v = 0; v < kVectors; ++v) store(gates + gate + v * kLanes, totals[v]);
    }
}

}  // namespace

namespace ANTIPHON_VARIANT {

void recur(const Recurrence &r, std::int64_t row, float *gates) {
    float *const h = r.h + row * r.hidden, *const c = r.c + row * r.hidden;
    const std::int64_t length = r.lengths[row];
    for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t frame = row * r.frames + (r.backward ? length - 1 - i : i);
        add_recurrent(r, r.inputs + frame * 4 * r.hidden, h, gates);
        for (std::int64_t k = 0; k < r.hidden; k += kLanes) {
            const Floats in = sigmoid(load(gates + k)), keep = sigmoid(load(gates + r.hidden + k));
            const Floats news = hyperbolic_tangent(load(gates + 2 * r.hidden + k)), out = sigmoid(load(gates + 3 * r.hidden + k));
            const Floats cell = multiply_add(keep, load(c + k), in * news);
            const Floats state = out * hyperbolic_tangent(cell);
            store(c + k, cell);
            store(h + k, state);
            store(r.out + frame * r.out_stride + k, state);
        }
    }
}

}  // namespace ANTIPHON_VARIANT
}  // namespace antiphon
