// Convolution and products in 16-bit floats, fp16 or bf16, whichever the processor computes in.

#pragma once

#include <cstdint>

namespace antiphon {

constexpr std::int64_t kHalfPanel = 16;   // output channels of a panel
constexpr std::int64_t kHalfFrames = 192;  // at most, of one call of the kernel
constexpr std::int64_t kTileOutputs = 4;   // of Winograd's algorithm

// The 16-bit type that a set of kernels computes in. Panels of bf16 have two columns of an output side by side:
// [outputs / 16, taps, inputs / 2, 16, 2].
enum class HalfFormat : int { none, fp16, bf16 };

// Frames of 16-bit floats convolved with panels [outputs / 16, taps, inputs, 16] of them, the last panel padded with
// zeros. Frames outside the sequence count as zero.
//
// With `transform` t, 3 or 4, by Winograd's algorithm (arXiv:1509.09308), for stride 1 and a dilation of at most 6: taps are
// split into groups of t (t = 3 has one group), a group has t + 3 points, and panels are
// [outputs / 16, points, groups, inputs, 16].
struct HalfConvolution {
    const std::uint16_t *panels;
    std::int64_t taps, inputs, dilation, stride, left;
    int transform;  // 0 where there is none
    std::int64_t groups;
    const std::uint16_t *x;  // [frames, inputs]
    std::int64_t frames;
    const std::uint16_t *zeros;  // `inputs` of them

    std::int64_t points() const { return transform + kTileOutputs - 1; }
    // Frames that a call of the kernel computes at most.
    std::int64_t block() const { return transform ? (dilation < 6 ? 6 / dilation : 1) * 8 * dilation * kTileOutputs : kHalfFrames; }
    // Tiles of so many frames, whose outputs lie `dilation` apart; a multiple of 8.
    std::int64_t tiles(std::int64_t of_frames) const {
        const std::int64_t step = kTileOutputs * dilation;
        return ((of_frames + step - 1) / step * dilation + 7) / 8 * 8;
    }
    // Transformed inputs of each point: one per tile, and those that later groups begin with.
    std::int64_t inputs_there(std::int64_t of_frames) const { return tiles(of_frames) + (groups - 1) * dilation; }
    std::int64_t scratch_halves() const { return transform ? points() * inputs_there(block()) * inputs : 0; }
};

struct HalfKernels {
    HalfFormat format;
    std::int64_t columns;  // the number of inputs must be a multiple of it
    std::int64_t (*scratch_halves)(const HalfConvolution &);
    // Fills what the panels of a block share: at most `scratch_halves` numbers.
    void (*prepare)(const HalfConvolution &, std::int64_t begin, std::int64_t end, std::uint16_t *scratch);
    // totals[frame - begin][16] for the output frames [begin, end) of one block and one panel; `totals` has room for
    // a whole block. In fp16, sums of at most 128 products are accumulated in fp16 and these in fp32; in bf16, everything is
    // accumulated in fp32. A frame's bits depend on its index in its block and its inputs, nothing else.
    void (*convolve)(const HalfConvolution &, std::int64_t panel, std::int64_t begin, std::int64_t end,
                     const std::uint16_t *scratch, float *totals);
    void (*round)(const float *x, std::uint16_t *out, std::int64_t count);
};

}  // namespace antiphon
