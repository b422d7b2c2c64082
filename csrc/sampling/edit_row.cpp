// Edits of one row of logits. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include <cmath>

#include "base/functions.h"
#include "sampling/kernels.h"

namespace antiphon {
namespace {

// Without templates of the standard library, which the linker would share with files for other instruction sets.
void remove(const RowEdits &row, std::int64_t begin, std::int64_t end) {
    begin = begin < 0 ? 0 : begin;
    end = end < row.vocabulary ? end : row.vocabulary;
    for (std::int64_t token = begin; token < end; ++token) row.logits[token] = -kInfinity;
}

void apply_mask(const RowEdits &row) {
    for (std::int64_t first = 0; first < row.vocabulary; first += 8) {
        const unsigned bits = row.mask[first / 8];
        if (bits == 0xff) continue;
        if (!bits) {
            remove(row, first, first + 8);
            continue;
        }
        for (int bit = 0; bit < 8; ++bit) {
            if (!(bits >> bit & 1)) remove(row, first + bit, first + bit + 1);
        }
    }
}

void keep_allowed(const RowEdits &row) {
    for (std::int64_t i = 0; i < row.allowed.count; ++i) row.kept[i] = row.logits[row.allowed.ids[i]];
    remove(row, 0, row.vocabulary);
    for (std::int64_t i = 0; i < row.allowed.count; ++i) row.logits[row.allowed.ids[i]] = row.kept[i];
}

float largest_of(const float *values, std::int64_t count) {
    Floats top = splat(-kInfinity);
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) top = maximum(top, load(values + i));
    float found = largest(top);
    for (; i < count; ++i) found = values[i] > found ? values[i] : found;
    return found;
}

// Logarithm of the sum of e^value.
float log_total(const float *values, std::int64_t count) {
    const float top = largest_of(values, count);
    if (top == -kInfinity) return top;
    double total = 0;
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) total += double(sum(exponential(load(values + i) - splat(top))));
    for (; i < count; ++i) total += double(exponential(values[i] - top));
    return top + float(std::log(total));
}

void keep_span(const RowEdits &row) {
    const std::int32_t *span = row.span;
    remove(row, 0, span[0]);
    remove(row, span[1], row.vocabulary);
    remove(row, span[2], span[3]);
    const std::int64_t first = span[4] < row.vocabulary ? span[4] : row.vocabulary;
    if (first < 0) return;
    if (log_total(row.logits + first, row.vocabulary - first) > largest_of(row.logits, first)) remove(row, 0, first);
}

void add_bias(const RowEdits &row) {
    for (std::int64_t i = 0; i < row.bias.count; ++i) {
        float &logit = row.logits[row.bias.ids[i]];
        logit = row.bias.values[i] == -kInfinity ? -kInfinity : logit + row.bias.values[i];
    }
}

void penalize(const RowEdits &row) {
    const float repetition = row.penalties[0], presence = row.penalties[1], frequency = row.penalties[2];
    for (std::int64_t i = 0; i < row.seen.count; ++i) {
        float &logit = row.logits[row.seen.ids[i]];
        const float scaled = logit > 0 ? logit / repetition : logit * repetition;
        logit = row.times[i] > 0 ? scaled - (presence + frequency * float(row.times[i])) : scaled;
    }
}

}  // namespace

namespace ANTIPHON_VARIANT {

void edit_row(const RowEdits &row) {
    if (row.mask) apply_mask(row);
    if (row.allowed.count) keep_allowed(row);
    for (std::int64_t i = 0; i < row.banned.count; ++i) row.logits[row.banned.ids[i]] = -kInfinity;
    if (row.span) keep_span(row);
    if (row.bias.count) add_bias(row);
    if (row.penalties) penalize(row);
}

}  // namespace ANTIPHON_VARIANT

}  // namespace antiphon
