// Convolution in fp16 for ARM processors with fp16 arithmetic, eight numbers to an instruction.

#include <arm_neon.h>

#include <cstring>

#include "half/kernels.h"
#include "half/winograd.h"

namespace antiphon {
namespace {

constexpr int kTile = 8;  // frames that are computed together
constexpr std::int64_t kColumns = 8;  // columns of an instruction
constexpr std::int64_t kChain = 128;  // columns that are added up in fp16

// In assembly, since compilers copy a lane into a vector before each product with it. Sums of eight frames are in v16 to
// v31, their inputs in v0 to v7, weights of two columns in v8 to v11.
#define ANTIPHON_FRAME(x, low, high, first, second, lane) \
    "fmla v" #low ".8h, v" #first ".8h, v" #x ".h[" #lane "]\n" \
    "fmla v" #high ".8h, v" #second ".8h, v" #x ".h[" #lane "]\n"
#define ANTIPHON_COLUMN(first, second, lane) \
    ANTIPHON_FRAME(0, 16, 17, first, second, lane) \
    ANTIPHON_FRAME(1, 18, 19, first, second, lane) \
    ANTIPHON_FRAME(2, 20, 21, first, second, lane) \
    ANTIPHON_FRAME(3, 22, 23, first, second, lane) \
    ANTIPHON_FRAME(4, 24, 25, first, second, lane) \
    ANTIPHON_FRAME(5, 26, 27, first, second, lane) \
    ANTIPHON_FRAME(6, 28, 29, first, second, lane) \
    ANTIPHON_FRAME(7, 30, 31, first, second, lane)
#define ANTIPHON_COLUMNS(lane, next) \
    "ldp q8, q9, [%[weight]], #32\n" \
    "ldp q10, q11, [%[weight]], #32\n" \
    ANTIPHON_COLUMN(8, 9, lane) \
    ANTIPHON_COLUMN(10, 11, next)

// sums[frame][16] = weight · rows[frame] over `steps` times eight columns; the pointers advance.
inline void chain(const float16_t *rows[kTile], const float16_t *&weight, std::int64_t steps, float16_t *sums) {
    asm volatile(
        "movi v16.16b, #0\n movi v17.16b, #0\n movi v18.16b, #0\n movi v19.16b, #0\n"
        "movi v20.16b, #0\n movi v21.16b, #0\n movi v22.16b, #0\n movi v23.16b, #0\n"
        "movi v24.16b, #0\n movi v25.16b, #0\n movi v26.16b, #0\n movi v27.16b, #0\n"
        "movi v28.16b, #0\n movi v29.16b, #0\n movi v30.16b, #0\n movi v31.16b, #0\n"
        "1:\n"
        "ldr q0, [%[row0]], #16\n ldr q1, [%[row1]], #16\n ldr q2, [%[row2]], #16\n ldr q3, [%[row3]], #16\n"
        "ldr q4, [%[row4]], #16\n ldr q5, [%[row5]], #16\n ldr q6, [%[row6]], #16\n ldr q7, [%[row7]], #16\n"
        ANTIPHON_COLUMNS(0, 1)
        ANTIPHON_COLUMNS(2, 3)
        ANTIPHON_COLUMNS(4, 5)
        ANTIPHON_COLUMNS(6, 7)
        "subs %[steps], %[steps], #1\n b.ne 1b\n"
        "stp q16, q17, [%[sums]]\n stp q18, q19, [%[sums], #32]\n"
        "stp q20, q21, [%[sums], #64]\n stp q22, q23, [%[sums], #96]\n"
        "stp q24, q25, [%[sums], #128]\n stp q26, q27, [%[sums], #160]\n"
        "stp q28, q29, [%[sums], #192]\n stp q30, q31, [%[sums], #224]\n"
        : [row0] "+r"(rows[0]), [row1] "+r"(rows[1]), [row2] "+r"(rows[2]), [row3] "+r"(rows[3]), [row4] "+r"(rows[4]),
          [row5] "+r"(rows[5]), [row6] "+r"(rows[6]), [row7] "+r"(rows[7]), [weight] "+r"(weight), [steps] "+r"(steps)
        : [sums] "r"(sums)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v16", "v17", "v18",
          "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
#undef ANTIPHON_COLUMNS
#undef ANTIPHON_COLUMN
#undef ANTIPHON_FRAME

// totals[frame][16] += weight · rows[frame]
inline void tile(const float16_t *rows[kTile], const float16_t *weight, std::int64_t columns, float *totals) {
    alignas(16) float16_t sums[kTile * kHalfPanel];
    for (std::int64_t begin = 0; begin < columns; begin += kChain) {
        const std::int64_t count = columns - begin < kChain ? columns - begin : kChain;
        chain(rows, weight, count / kColumns, sums);
        for (int i = 0; i < kTile * kHalfPanel; i += 8) {
            const float16x8_t part = vld1q_f16(sums + i);
            vst1q_f32(totals + i, vaddq_f32(vld1q_f32(totals + i), vcvt_f32_f16(vget_low_f16(part))));
            vst1q_f32(totals + i + 4, vaddq_f32(vld1q_f32(totals + i + 4), vcvt_high_f32_f16(part)));
        }
    }
}

// Convolves by Winograd's algorithm, from transformed inputs.
template <int taps>
void convolve_tiles(const HalfConvolution &c, std::int64_t panel, std::int64_t frames, const float16_t *there,
                    float *totals) {
    constexpr int points = Winograd<taps>::kPoints;
    const std::int64_t tiles = c.tiles(frames), inputs_there = c.inputs_there(frames);
    alignas(64) float sums[points * kHalfFrames / kTileOutputs * kHalfPanel];
    std::memset(sums, 0, std::size_t(points * tiles * kHalfPanel) * sizeof(float));
    const auto *weight = reinterpret_cast<const float16_t *>(c.panels) + panel * points * c.groups * c.inputs * kHalfPanel;
    for (int point = 0; point < points; ++point) {
        for (std::int64_t group = 0; group < c.groups; ++group, weight += c.inputs * kHalfPanel) {
            const float16_t *const x = there + (point * inputs_there + group * c.dilation) * c.inputs;
            for (std::int64_t first = 0; first < tiles; first += kTile) {
                const float16_t *rows[kTile];
                for (int i = 0; i < kTile; ++i) rows[i] = x + (first + i) * c.inputs;
                tile(rows, weight, c.inputs, sums + (point * tiles + first) * kHalfPanel);
            }
        }
    }
    way_back<taps>(sums, tiles, c.dilation, totals);
}

std::int64_t scratch_halves(const HalfConvolution &c) { return c.scratch_halves(); }

void prepare(const HalfConvolution &c, std::int64_t begin, std::int64_t end, std::uint16_t *scratch) {
    auto *const there = reinterpret_cast<float16_t *>(scratch);
    if (c.transform == 3) way_there<3>(c, begin, end - begin, there);
    if (c.transform == 4) way_there<4>(c, begin, end - begin, there);
}

void convolve(const HalfConvolution &c, std::int64_t panel, std::int64_t begin, std::int64_t end,
              const std::uint16_t *scratch, float *totals) {
    const auto *const there = reinterpret_cast<const float16_t *>(scratch);
    if (c.transform == 3) return convolve_tiles<3>(c, panel, end - begin, there, totals);
    if (c.transform == 4) return convolve_tiles<4>(c, panel, end - begin, there, totals);
    const auto *const x = reinterpret_cast<const float16_t *>(c.x), *const zeros = reinterpret_cast<const float16_t *>(c.zeros);
    const auto *const weight = reinterpret_cast<const float16_t *>(c.panels) + panel * c.taps * c.inputs * kHalfPanel;
    std::memset(totals, 0, kHalfFrames * kHalfPanel * sizeof(float));
    for (std::int64_t tap = 0; tap < c.taps; ++tap) {
        for (std::int64_t frame = begin; frame < end; frame += kTile) {
            const float16_t *rows[kTile];
            for (int i = 0; i < kTile; ++i) {
                const std::int64_t source = (frame + i) * c.stride + tap * c.dilation - c.left;
                rows[i] = frame + i < end && source >= 0 && source < c.frames ? x + source * c.inputs : zeros;
            }
            tile(rows, weight + tap * c.inputs * kHalfPanel, c.inputs, totals + (frame - begin) * kHalfPanel);
        }
    }
}

void round_to_half(const float *x, std::uint16_t *out, std::int64_t count) {
    auto *const halves = reinterpret_cast<float16_t *>(out);
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        vst1q_f16(halves + i, vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(x + i)), vld1q_f32(x + i + 4)));
    }
    for (; i < count; ++i) halves[i] = float16_t(x[i]);
}

}  // namespace

namespace fp16 {
extern const HalfKernels half;
const HalfKernels half = {HalfFormat::fp16, kColumns, scratch_halves, prepare, convolve, round_to_half};
}  // namespace fp16

}  // namespace antiphon
