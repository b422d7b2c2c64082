// Kinds of instructions. Each calls the same function as the operation of its name, so results are bit-identical.

#pragma once

#include <memory>

#include "linear/adapters.h"
#include "linear/matrix.h"
#include "linear/product.h"
#include "program/program.h"
#include "rows/kernels.h"

namespace antiphon {

// Operand of queries, keys or values [tokens, heads, head_dim].
struct HeadsOperand {
    Operand operand;
    std::int64_t token_stride, head_stride;

    HeadRows at(const Frame &frame) const { return {frame.at<const float>(operand), token_stride, head_stride}; }
};

struct EmbedInstruction final : Instruction {
    const Matrix *matrix;
    Operand ids, out;
    bool wide;  // ids are int64, else int32
    float scale;
    Extent tokens;
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override { return {tokens.at(frame.symbols)}; }
};

struct LinearInstruction final : Instruction {
    const Matrix *matrix;
    Operand x, bias, residual, out;
    std::int64_t x_stride, residual_stride, out_stride;
    Activation activation;
    bool gated;
    Extent tokens;
    LinearCall call(const Frame &frame) const;
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override { return {tokens.at(frame.symbols)}; }
};

struct AdaptedLinearInstruction final : Instruction {
    LinearInstruction linear;
    const AdapterTable *adapters;
    Operand slots;  // int32, one for each token
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override { return linear.effort(frame); }
};

struct NormInstruction final : Instruction {
    bool centred;
    Operand x, residual, weight, bias, y, total;
    std::int64_t x_outer, x_inner, residual_outer, residual_inner, inner, width;
    float eps;
    Extent outer;  // rows / inner
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override { return {outer.at(frame.symbols)}; }
};

struct RotaryInstruction final : Instruction {
    HeadsOperand q, k;
    std::int64_t heads, kv_heads, head_dim, rotated, table_rows;
    Operand positions, table, q_out, k_out;
    Extent tokens;
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override { return {tokens.at(frame.symbols)}; }
};

struct StoreInstruction final : Instruction {
    const Pages *pages;
    HeadsOperand k, v;
    int group;
    Extent tokens;
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override { return {tokens.at(frame.symbols)}; }
};

// Norm, rotary embedding and store in one pass over the tokens.
struct HeadsInstruction final : Instruction {
    const Pages *pages;
    HeadsOperand q, k, v;
    std::int64_t heads, rotated, table_rows;
    Operand q_norm, k_norm, positions, table, q_out;
    float q_eps, k_eps;
    int group;
    Extent tokens;
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override { return {tokens.at(frame.symbols)}; }
};

struct PagedAttentionInstruction final : Instruction {
    const Pages *pages;
    HeadsOperand q;
    std::int64_t heads;
    int group;
    Masking masking;  // without addresses, which each run sets
    Operand sinks, bias, out;
    Extent tokens;
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override;
};

struct AttentionInstruction final : Instruction {
    HeadsOperand q, k, v;
    std::int64_t heads, kv_heads, head_dim;
    Operand seq_start, bias, out;
    Masking masking;
    bool rounded;
    Extent tokens, sequences;
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override;
};

struct GatherInstruction final : Instruction {
    Operand x, rows, out;
    bool wide;
    std::int64_t x_stride, width;
    Extent source, count;
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override { return {count.at(frame.symbols)}; }
};

struct AddInstruction final : Instruction {
    Operand x, y, out;
    std::int64_t x_stride, y_stride, width;
    Extent rows, y_rows;
    std::int64_t most_y_rows;  // rows that a constant y has; 0: no bound
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override { return {rows.at(frame.symbols)}; }
};

struct SegmentMeanInstruction final : Instruction {
    Operand x, seq_start, out;
    std::int64_t x_stride, width;
    Extent tokens, segments;
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override { return {tokens.at(frame.symbols)}; }
};

struct UnitRowsInstruction final : Instruction {
    Operand x, out;
    std::int64_t x_stride, width;
    Extent rows;
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override { return {rows.at(frame.symbols)}; }
};

struct ConvolutionInstruction final : Instruction {
    Operand x, panels, bias, out;
    std::int64_t kernel, out_channels, channels, stride, left;
    Activation activation;
    Extent windows, frames, out_frames;
    void run(const Frame &) const override;
    Effort effort(const Frame &frame) const override {
        return {windows.at(frame.symbols) * out_frames.at(frame.symbols)};
    }
};

// Does nothing: its time is the overhead of an instruction.
struct EmptyInstruction final : Instruction {
    void run(const Frame &) const override {}
    Effort effort(const Frame &) const override { return {}; }
};

}  // namespace antiphon
