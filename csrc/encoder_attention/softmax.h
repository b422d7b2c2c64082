// Conversion of one query's scores to softmax weights.

#pragma once

#include <cstdint>

#include "packed/format.h"

namespace antiphon {

struct SoftmaxKernels {
    // Turns scores into weights e^(scale · (score - the largest)) as activations, whose scale in each group follows from
    // its largest weight; weights from `count` on are zero. Returns the total of the rounded weights. Overwrites scores
    // after `count`.
    float (*soften)(float *scores, std::int64_t count, float scale, const Activations &weights, std::int64_t token);
    // Turns scores into weights e^(scale · (score - the largest)) in place, to about 1e-4; weights from `count` to
    // `columns`, a multiple of 8, are zero. Returns the weights' total.
    float (*exponentiate)(float *scores, std::int64_t count, std::int64_t columns, float scale);
};

}  // namespace antiphon
