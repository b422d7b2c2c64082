// Passes over logits. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "sampling/kernels.h"

#include "base/functions.h"
#include "sampling/philox.h"

namespace antiphon {
namespace {

constexpr float kMostNoise = 16.7f;  // maximum of Gumbel noise from 23 bits
constexpr float kBinsPerUnit = 50.0f;

ANTIPHON_INLINE Lanes load_lanes(const float *source) {
    Lanes lanes;
    std::memcpy(&lanes, source, sizeof lanes);
    return lanes;
}
ANTIPHON_INLINE void store_lanes(float *target, Lanes lanes) { std::memcpy(target, &lanes, sizeof lanes); }

// Returns a group's logits: in place, or copied and padded with -inf if the row ends within the group.
const float *group_logits(const LogitRow &row, std::int64_t begin, float *buffer) {
    const std::int64_t count = row.vocabulary - begin;
    if (count >= kVocabularyGroup) return row.logits + begin;
    for (std::int64_t i = 0; i < kVocabularyGroup; ++i) buffer[i] = i < count ? row.logits[begin + i] : -kInfinity;
    return buffer;
}

float largest_of(const float *group) {
    Floats first = load(group), second = load(group + kLanes);
    for (int i = 2 * kLanes; i < kVocabularyGroup; i += 2 * kLanes) {
        first = maximum(first, load(group + i));
        second = maximum(second, load(group + i + kLanes));
    }
    return largest(maximum(first, second));
}

Survey survey(const LogitRow &row, std::int64_t begin, std::int64_t end, bool plain, bool scaled, float *maxima) {
    float buffer[kVocabularyGroup];
    Survey found{-kInfinity, begin, 0, 0};
    std::int64_t top_group = begin;
    for (std::int64_t i = begin; i < end; i += kVocabularyGroup) {
        const float top = largest_of(group_logits(row, i, buffer));
        maxima[i / kVocabularyGroup] = top;
        if (top > found.top) {
            found.top = top;
            top_group = i;
        }
    }
    if (found.top == -kInfinity) return found;
    for (found.top_token = top_group; row.logits[found.top_token] != found.top;) ++found.top_token;

    if (!plain && !scaled) return found;
    const float scaled_top = found.top / row.temperature;
    Floats totals[2] = {zeros(), zeros()}, scaled_totals = zeros();
    for (std::int64_t i = begin; i < end; i += kVocabularyGroup) {
        const float *group = group_logits(row, i, buffer);
        for (int j = 0; plain && j < kVocabularyGroup; j += 2 * kLanes) {
            totals[0] = totals[0] + exponential(load(group + j) - splat(found.top));
            totals[1] = totals[1] + exponential(load(group + j + kLanes) - splat(found.top));
        }
        for (int j = 0; scaled && j < kVocabularyGroup; j += kLanes) {
            scaled_totals = scaled_totals + exponential(load(group + j) / splat(row.temperature) - splat(scaled_top));
        }
    }
    found.total = sum(totals[0] + totals[1]);
    found.scaled_total = sum(scaled_totals);
    return found;
}

// Stores the upper 23 bits of a random word for each token of a group, and returns their maximum.
std::int32_t random_bits(const LogitRow &row, std::int64_t begin, std::int32_t *bits) {
    constexpr int width = sizeof(LaneInts) / sizeof(std::int32_t);
    std::uint32_t words[kVocabularyGroup];
    philox_group<kVocabularyGroup>(row.seed, row.index, std::uint32_t(begin / 4), words);
    LaneInts top{};
    for (int i = 0; i < kVocabularyGroup; i += width) {
        Words word;
        std::memcpy(&word, words + i, sizeof word);
        const LaneInts upper = (LaneInts)(word >> 9);
        std::memcpy(bits + i, &upper, sizeof upper);
        top = upper > top ? upper : top;
    }
    std::int32_t found = 0;
    for (int lane = 0; lane < width; ++lane) found = top[lane] > found ? top[lane] : found;
    return found;
}

// Computes scaled logits of a group and their sums with Gumbel noise, -inf below `threshold`.
float perturb(const LogitRow &row, std::int64_t begin, const std::int32_t *bits, float threshold, float *scaled,
              float *values) {
    constexpr int width = sizeof(Lanes) / sizeof(float);
    float buffer[kVocabularyGroup];
    const float *group = group_logits(row, begin, buffer);
    Lanes top = splat_lanes(-kInfinity);
    for (int i = 0; i < kVocabularyGroup; i += width) {
        LaneInts number;
        std::memcpy(&number, bits + i, sizeof number);
        const Lanes uniform = (__builtin_convertvector(number, Lanes) + 0.5f) * 0x1p-23f;
        const Lanes noise = -log_lanes(-log_lanes(uniform));
        const Lanes logit = load_lanes(group + i) / row.temperature;
        const Lanes value = logit >= threshold ? logit + noise : splat_lanes(-kInfinity);
        store_lanes(scaled + i, logit);
        store_lanes(values + i, value);
        top = value > top ? value : top;
    }
    float lanes[width], found = -kInfinity;
    store_lanes(lanes, top);
    for (const float lane : lanes) found = lane > found ? lane : found;
    return found;
}

// Whether noise up to that of `bits` cannot lift a scaled logit of `top` to `wanted`. Noise of at least d needs a number u
// with 1 - u <= -log u <= e^-d; the bounds are widened by more than the error of rounding.
bool out_of_reach(float top, float wanted, std::int32_t bits) {
    const float missing = 1.0f - (float(bits) + 0.5f) * 0x1p-23f;
    return top < wanted && missing > exponential(top - wanted) * 1.001f + 1e-7f;
}

bool keeps(Threshold threshold, float scaled, std::int64_t token) {
    return scaled > threshold.scaled || (scaled == threshold.scaled && token <= threshold.token);
}

Draw draw(const LogitRow &row, std::int64_t begin, std::int64_t end, Threshold threshold, const float *maxima,
          std::int64_t likely) {
    float scaled[kVocabularyGroup], values[kVocabularyGroup];
    std::int32_t bits[kVocabularyGroup];
    // The likely token's value is a lower bound of the maximum: most groups cannot reach it with any noise, or with theirs.
    const std::int64_t likely_group = likely / kVocabularyGroup * kVocabularyGroup;
    random_bits(row, likely_group, bits);
    perturb(row, likely_group, bits, threshold.scaled, scaled, values);
    float bound = values[likely - likely_group];
    Draw best{-kInfinity, -1};
    for (std::int64_t i = begin; i < end; i += kVocabularyGroup) {
        const float top = maxima[i / kVocabularyGroup] / row.temperature;
        if (top < threshold.scaled || top + kMostNoise < bound) continue;
        if (out_of_reach(top, bound, random_bits(row, i, bits))) continue;
        if (!(perturb(row, i, bits, threshold.scaled, scaled, values) > best.value)) continue;
        for (int j = 0; j < kVocabularyGroup; ++j) {
            if (values[j] > best.value && keeps(threshold, scaled[j], i + j)) best = {values[j], i + j};
        }
        bound = best.value > bound ? best.value : bound;
    }
    return best;
}

// Distances of eight scaled logits from the top, which select their bins; the last bin has all larger distances.
ANTIPHON_INLINE Floats distances(const LogitRow &row, const float *group, float top) {
    return splat(top) - load(group) / splat(row.temperature);
}
ANTIPHON_INLINE int bin_of(float distance) {
    const float bin = distance * kBinsPerUnit;
    return bin < float(kBins - 1) ? int(bin) : kBins - 1;
}

void histogram(const LogitRow &row, float top, double *masses) {
    float buffer[kVocabularyGroup], distance[kLanes], weight[kLanes];
    for (int bin = 0; bin < kBins; ++bin) masses[bin] = 0;
    for (std::int64_t i = 0; i < row.vocabulary; i += kVocabularyGroup) {
        const float *group = group_logits(row, i, buffer);
        for (int j = 0; j < kVocabularyGroup; j += kLanes) {
            const Floats far = distances(row, group + j, top);
            store(distance, far);
            store(weight, exponential(zeros() - far));
            for (int lane = 0; lane < kLanes; ++lane) masses[bin_of(distance[lane])] += double(weight[lane]);
        }
    }
}

std::int64_t collect(const LogitRow &row, float top, int bin, std::int32_t *tokens) {
    float buffer[kVocabularyGroup], distance[kLanes];
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < row.vocabulary; i += kVocabularyGroup) {
        const float *group = group_logits(row, i, buffer);
        for (int j = 0; j < kVocabularyGroup; j += kLanes) {
            store(distance, distances(row, group + j, top));
            for (int lane = 0; lane < kLanes; ++lane) {
                if (bin_of(distance[lane]) == bin && i + j + lane < row.vocabulary) tokens[count++] = std::int32_t(i + j + lane);
            }
        }
    }
    return count;
}

}  // namespace

namespace ANTIPHON_VARIANT {

void edit_row(const RowEdits &row);

extern const SamplingKernels sampling;
const SamplingKernels sampling = {survey, draw, histogram, collect, edit_row};

}  // namespace ANTIPHON_VARIANT

}  // namespace antiphon
