#include "program/instructions.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "attention/heads.h"
#include "base/scratch.h"
#include "encoder_attention/rounded.h"
#include "linear/adapters.h"
#include "linear/product.h"
#include "rows/tasks.h"
#include "sound/convolution.h"

namespace antiphon {
namespace {

// Throws `std::invalid_argument` if starts descend or lie outside the tokens.
void check_starts(const std::int32_t *starts, std::int64_t sequences, std::int64_t tokens) {
    bool valid = starts[0] >= 0 && starts[sequences] <= tokens;
    for (std::int64_t s = 0; s < sequences; ++s) valid = valid && starts[s] <= starts[s + 1];
    if (!valid) {
        throw std::invalid_argument("the starts of " + std::to_string(sequences) + " sequences do not lie within " +
                                    std::to_string(tokens) + " tokens in ascending order");
    }
}

const std::int64_t *slots_of(const Frame &frame, int group, std::int64_t tokens) {
    const GroupTables &tables = frame.groups[group];
    if (tables.num_slots != tokens) {
        throw std::invalid_argument(std::to_string(tokens) + " tokens are stored to " + std::to_string(tables.num_slots) +
                                    " slots");
    }
    return tables.slots;
}

// Sums the numbers of keys that the queries [first, last) of a sequence see.
std::int64_t visible_pairs(const Masking &m, std::int64_t first, std::int64_t last, std::int64_t length) {
    std::int64_t pairs = 0;
    for (std::int64_t query = first; query < last; ++query) {
        const std::int64_t end = m.causal ? query + 1 : length;
        pairs += m.window ? std::min(end, m.window + m.sink_tokens) : end;
    }
    return pairs;
}

}  // namespace

void EmbedInstruction::run(const Frame &frame) const {
    const std::int64_t count = tokens.at(frame.symbols);
    float *const target = frame.at<float>(out);
    if (wide) {
        take_rows(*matrix, frame.at<const std::int64_t>(ids), count, target, *frame.variant);
    } else {
        thread_local Scratch scratch;
        auto *const widened = reinterpret_cast<std::int64_t *>(scratch.reserve(count * sizeof(std::int64_t)));
        std::copy_n(frame.at<const std::int32_t>(ids), count, widened);
        take_rows(*matrix, widened, count, target, *frame.variant);
    }
    if (scale != 1.0f) {
        for (std::int64_t i = 0; i < count * matrix->columns; ++i) target[i] *= scale;
    }
}

LinearCall LinearInstruction::call(const Frame &frame) const {
    return {matrix, frame.at<const float>(x), x_stride, tokens.at(frame.symbols), frame.at<const float>(bias),
            activation, gated, frame.at<const float>(residual), residual_stride, frame.at<float>(out), out_stride,
            frame.threads, frame.variant};
}

void LinearInstruction::run(const Frame &frame) const { run_linear(call(frame)); }

void AdaptedLinearInstruction::run(const Frame &frame) const {
    run_adapted_linear(linear.call(frame), *adapters, frame.at<const std::int32_t>(slots));
}

void NormInstruction::run(const Frame &frame) const {
    const Norm norm{{frame.at<const float>(x), inner, x_outer, x_inner},
                    {frame.at<const float>(residual), inner, residual_outer, residual_inner},
                    width, frame.at<const float>(weight), frame.at<const float>(bias), eps, frame.at<float>(y),
                    frame.at<float>(total)};
    run_norm(centred, norm, outer.at(frame.symbols) * inner, frame.threads, *frame.variant);
}

void RotaryInstruction::run(const Frame &frame) const {
    const std::int64_t count = tokens.at(frame.symbols);
    const HeadRows queries = q.at(frame), keys = k.at(frame);
    const Rotation rotation{{{queries.data, queries.token_stride, queries.head_stride, heads, frame.at<float>(q_out)},
                             {keys.data, keys.token_stride, keys.head_stride, kv_heads, frame.at<float>(k_out)}},
                            head_dim, rotated, frame.at<const std::int32_t>(positions), frame.at<const float>(table)};
    check_positions(rotation.positions, count, table_rows);
    run_rotary(rotation, count, frame.threads, *frame.variant);
}

void StoreInstruction::run(const Frame &frame) const {
    const std::int64_t count = tokens.at(frame.symbols);
    pages->store(k.at(frame), v.at(frame), slots_of(frame, group, count), count, frame.threads, *frame.variant);
}

void HeadsInstruction::run(const Frame &frame) const {
    const std::int64_t count = tokens.at(frame.symbols);
    const HeadsCall call{q.at(frame), k.at(frame), v.at(frame), heads, frame.at<const float>(q_norm),
                         frame.at<const float>(k_norm), q_eps, k_eps, frame.at<const std::int32_t>(positions),
                         frame.at<const float>(table), rotated, pages, slots_of(frame, group, count), frame.at<float>(q_out)};
    check_positions(call.positions, count, table_rows);
    run_heads(call, count, frame.threads, *frame.variant);
}

void PagedAttentionInstruction::run(const Frame &frame) const {
    Masking own = masking;
    own.sinks = frame.at<const float>(sinks);
    own.bias = frame.at<const float>(bias);
    pages->attend(q.at(frame), tokens.at(frame.symbols), heads, frame.groups[group], own, frame.at<float>(out),
                  frame.threads, *frame.variant);
}

Effort PagedAttentionInstruction::effort(const Frame &frame) const {
    const GroupTables &tables = frame.groups[group];
    Effort effort{tokens.at(frame.symbols)};
    for (std::int64_t r = 0; r < tables.requests; ++r) {
        const std::int64_t length = tables.seq_lens[r], queries = tables.query_start[r + 1] - tables.query_start[r];
        effort.pairs += visible_pairs(masking, length - queries, length, length);
        effort.keys += masking.window ? std::min(length, masking.window + masking.sink_tokens + queries - 1) : length;
    }
    return effort;
}

void AttentionInstruction::run(const Frame &frame) const {
    Masking own = masking;
    own.bias = frame.at<const float>(bias);
    const auto *const starts = frame.at<const std::int32_t>(seq_start);
    check_starts(starts, sequences.at(frame.symbols), tokens.at(frame.symbols));
    if (rounded) {
        attend_rounded(q.at(frame), k.at(frame), v.at(frame), heads, kv_heads, head_dim, starts,
                       sequences.at(frame.symbols), masking.scale, frame.at<float>(out), frame.threads, *frame.variant);
        return;
    }
    attend_sequences(q.at(frame), k.at(frame), v.at(frame), heads, kv_heads, head_dim, starts,
                     sequences.at(frame.symbols), own, frame.at<float>(out), frame.threads, *frame.variant);
}

Effort AttentionInstruction::effort(const Frame &frame) const {
    Effort effort{tokens.at(frame.symbols)};
    const auto *const starts = frame.at<const std::int32_t>(seq_start);
    for (std::int64_t s = 0; s < sequences.at(frame.symbols); ++s) {
        const std::int64_t length = starts[s + 1] - starts[s];
        effort.pairs += visible_pairs(masking, 0, length, length);
        effort.keys += length;
    }
    return effort;
}

void GatherInstruction::run(const Frame &frame) const {
    const auto *const from = frame.at<const float>(x);
    auto *const to = frame.at<float>(out);
    const std::int64_t limit = source.at(frame.symbols), number = count.at(frame.symbols);
    for (std::int64_t i = 0; i < number; ++i) {
        const std::int64_t row = wide ? frame.at<const std::int64_t>(rows)[i] : frame.at<const std::int32_t>(rows)[i];
        if (row < 0 || row >= limit) {
            throw std::out_of_range("row " + std::to_string(row) + " is not one of " + std::to_string(limit));
        }
        std::memcpy(to + i * width, from + row * x_stride, width * sizeof(float));
    }
}

void AddInstruction::run(const Frame &frame) const {
    const std::int64_t repeated = y_rows.at(frame.symbols);
    if (most_y_rows && repeated > most_y_rows) {
        throw std::invalid_argument(std::to_string(repeated) + " rows are added to, and a constant has " +
                                    std::to_string(most_y_rows));
    }
    run_add({frame.at<const float>(x), x_stride, frame.at<const float>(y), y_stride, std::max<std::int64_t>(1, repeated), width,
             frame.at<float>(out)},
            rows.at(frame.symbols), frame.threads, *frame.variant);
}

void SegmentMeanInstruction::run(const Frame &frame) const {
    const auto *const starts = frame.at<const std::int32_t>(seq_start);
    const std::int64_t number = segments.at(frame.symbols);
    check_starts(starts, number, tokens.at(frame.symbols));
    run_segment_means({frame.at<const float>(x), x_stride, width, starts, frame.at<float>(out)}, number, frame.threads,
                      *frame.variant);
}

void UnitRowsInstruction::run(const Frame &frame) const {
    run_unit_rows({frame.at<const float>(x), x_stride, width, frame.at<float>(out)}, rows.at(frame.symbols),
                  frame.threads, *frame.variant);
}

void ConvolutionInstruction::run(const Frame &frame) const {
    run_convolution({frame.at<const float>(panels), kernel, out_channels, frame.at<const float>(x),
                     windows.at(frame.symbols), frames.at(frame.symbols), channels, out_frames.at(frame.symbols), stride,
                     left, frame.at<const float>(bias), activation, frame.at<float>(out)},
                    frame.threads, *frame.variant);
}

}  // namespace antiphon
