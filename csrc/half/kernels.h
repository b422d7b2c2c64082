// Convolution and products in the 16-bit floats that the processor computes in, fp16 or bf16.

#pragma once

#include <cstdint>

namespace antiphon {

constexpr std::int64_t kHalfPanel = 16;   // output channels of a panel
constexpr std::int64_t kHalfFrames = 192;  // maximum frames of one call of the kernel
constexpr std::int64_t kTileOutputs = 4;   // outputs of a tile in Winograd's algorithm

// 16-bit type that a set of kernels computes in. Panels of bf16 have two columns of an output side by side:
// [outputs / 16, taps, inputs / 2, 16, 2].
enum class HalfFormat : int { none, fp16, bf16 };

// Convolution of frames of 16-bit floats with panels [outputs / 16, taps, inputs, 16], the last panel padded with zeros.
// Frames outside the sequence count as zero.
//
// A `transform` t, 3 or 4, selects Winograd's algorithm (arXiv:1509.09308), for stride 1 and a dilation of at most 6: taps
// are split into groups of t (t = 3 has one group), a group has t + 3 points, and panels are
// [outputs / 16, points, groups, inputs, 16].
struct HalfConvolution {
    const std::uint16_t *panels;
    std::int64_t taps, inputs, dilation, stride, left;
    int transform;  // taps of a group; 0: plain convolution
    std::int64_t groups;
    const std::uint16_t *x;  // [frames, inputs]
    std::int64_t frames;
    const std::uint16_t *zeros;  // [inputs]

    std::int64_t points() const { return transform + kTileOutputs - 1; }
    // Maximum frames that a call of the kernel computes.
    std::int64_t block() const { return transform ? (dilation < 6 ? 6 / dilation : 1) * 8 * dilation * kTileOutputs : kHalfFrames; }
    // Tiles that cover `of_frames` frames, a multiple of 8. The outputs of a tile lie `dilation` apart.
    std::int64_t tiles(std::int64_t of_frames) const {
        const std::int64_t step = kTileOutputs * dilation;
        return ((of_frames + step - 1) / step * dilation + 7) / 8 * 8;
    }
    // Number of transformed inputs of each point: one per tile, and further ones for the later groups of the last tiles.
    std::int64_t inputs_there(std::int64_t of_frames) const { return tiles(of_frames) + (groups - 1) * dilation; }
    std::int64_t scratch_halves() const { return transform ? points() * inputs_there(block()) * inputs : 0; }
};

struct HalfKernels {
    HalfFormat format;
    std::int64_t columns;  // divisor of the number of inputs
    std::int64_t (*scratch_halves)(const HalfConvolution &);
    // Fills `scratch` with at most `scratch_halves` numbers, which all panels of a block share.
    void (*prepare)(const HalfConvolution &, std::int64_t begin, std::int64_t end, std::uint16_t *scratch);
    // Computes totals[frame - begin][16] for the output frames [begin, end) of one block and one panel; `totals` has room
    // for a whole block. In fp16, sums of at most 128 products are accumulated in fp16, and these sums in fp32; in bf16, all
    // products are accumulated in fp32. A frame's bits depend only on its index in its block and its inputs.
    void (*convolve)(const HalfConvolution &, std::int64_t panel, std::int64_t begin, std::int64_t end,
                     const std::uint16_t *scratch, float *totals);
    void (*round)(const float *x, std::uint16_t *out, std::int64_t count);
};

}  // namespace antiphon
