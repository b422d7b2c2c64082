// Scores of one query to softmax weights.

#pragma once

#include <cstdint>

#include "packed/format.h"

namespace antiphon {

struct SoftmaxKernels {
    // Scores to weights e^(scale · (score - the largest)) as activations, a group's scale being that of its largest; from
    // `count` on they are zero. The total of the weights as they are rounded. Scores behind `count` are overwritten.
    float (*soften)(float *scores, std::int64_t count, float scale, const Activations &weights, std::int64_t token);
    // Scores to weights e^(scale · (score - the largest)) to some 1e-4, in place; from `count` to `columns`, a multiple of
    // 8, they are zero. Their total.
    float (*exponentiate)(float *scores, std::int64_t count, std::int64_t columns, float scale);
};

}  // namespace antiphon
