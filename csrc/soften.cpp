// Scores to weights. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "rows.h"

#include "functions.h"

namespace antiphon {
namespace ANTIPHON_VARIANT {

float soften(float *scores, std::int64_t count, std::int64_t padded, float scale) {
    for (std::int64_t i = count; i < padded; ++i) scores[i] = -kInfinity;
    Floats maxima[4] = {splat(-kInfinity), splat(-kInfinity), splat(-kInfinity), splat(-kInfinity)};
    for (std::int64_t i = 0; i + 4 * kLanes <= padded; i += 4 * kLanes) {
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) maxima[c] = maximum(maxima[c], load(scores + i + c * kLanes));
    }
    const Floats top = splat(largest(maximum(maximum(maxima[0], maxima[1]), maximum(maxima[2], maxima[3]))));
    const Floats by = splat(scale);
    Floats totals[4] = {zeros(), zeros(), zeros(), zeros()};
    for (std::int64_t i = 0; i + 4 * kLanes <= padded; i += 4 * kLanes) {
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) {
            const Floats weight = exponential((load(scores + i + c * kLanes) - top) * by);
            store(scores + i + c * kLanes, weight);
            totals[c] = totals[c] + weight;
        }
    }
    return sum((totals[0] + totals[1]) + (totals[2] + totals[3]));
}

}  // namespace ANTIPHON_VARIANT
}  // namespace antiphon
