// Convolution in bf16 for x86 processors with AMX: sixteen frames by sixteen outputs over 32 columns to an instruction.

#include <immintrin.h>

#include <cstring>

#include "base/tiles_amx.h"
#include "half/kernels.h"

namespace antiphon {
namespace {

constexpr std::int64_t kTileFrames = 16, kTileColumns = 32;
constexpr std::int64_t kTiles = 4;  // tiles of frames summed together, in registers 0 to 3; frames in 4 to 6, weights in 7

// Input frames of a block: `count` frames from `first` on, some of which may lie outside the sequence.
struct Source {
    std::int64_t first, count;

    Source(const HalfConvolution &c, std::int64_t begin, std::int64_t end) : first(begin * c.stride - c.left) {
        const std::int64_t outputs = (end - begin + kTileFrames - 1) / kTileFrames * kTileFrames;
        count = (outputs - 1) * c.stride + (c.taps - 1) * c.dilation + 1;
    }
    bool is_whole(const HalfConvolution &c) const { return first >= 0 && first + count <= c.frames; }
};

std::int64_t scratch_halves(const HalfConvolution &c) { return Source(c, 0, c.block()).count * c.inputs; }

// Copies the frames of a block that reaches beyond the sequence, padded with zeros.
void prepare(const HalfConvolution &c, std::int64_t begin, std::int64_t end, std::uint16_t *scratch) {
    const Source source(c, begin, end);
    if (source.is_whole(c)) return;
    const auto within = [&](std::int64_t frame) { return frame < 0 ? 0 : frame < source.count ? frame : source.count; };
    const std::int64_t low = within(-source.first), high = within(c.frames - source.first);
    std::memset(scratch, 0, std::size_t(source.count * c.inputs) * 2);
    if (low >= high) return;
    std::memcpy(scratch + low * c.inputs, c.x + (source.first + low) * c.inputs, std::size_t((high - low) * c.inputs) * 2);
}

#define ANTIPHON_TILE(number, tile) \
    if constexpr (tiles > number) { \
        _tile_loadd(tile, x + number * kTileFrames * frame_halves, frame_halves * 2); \
        _tile_dpbf16ps(number, tile, 7); \
    }
#define ANTIPHON_STORE(number) \
    if constexpr (tiles > number) _tile_stored(number, totals + number * kTileFrames * kHalfPanel, kHalfPanel * 4);

// Computes totals[frame][16] of `tiles` times sixteen frames, whose inputs begin at `rows`.
template <int tiles>
void multiply(const HalfConvolution &c, const std::uint16_t *rows, const std::uint16_t *weight, float *totals) {
    const std::int64_t frame_halves = c.stride * c.inputs;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::int64_t tap = 0; tap < c.taps; ++tap, rows += c.dilation * c.inputs) {
        for (std::int64_t column = 0; column < c.inputs; column += kTileColumns, weight += kTileColumns * kHalfPanel) {
            const std::uint16_t *const x = rows + column;
            _tile_loadd(7, weight, 64);
            ANTIPHON_TILE(0, 4)
            ANTIPHON_TILE(1, 5)
            ANTIPHON_TILE(2, 6)
            ANTIPHON_TILE(3, 4)
        }
    }
    ANTIPHON_STORE(0)
    ANTIPHON_STORE(1)
    ANTIPHON_STORE(2)
    ANTIPHON_STORE(3)
}
#undef ANTIPHON_STORE
#undef ANTIPHON_TILE

void convolve(const HalfConvolution &c, std::int64_t panel, std::int64_t begin, std::int64_t end,
              const std::uint16_t *scratch, float *totals) {
    const TileSession session;
    const Source source(c, begin, end);
    const std::uint16_t *rows = source.is_whole(c) ? c.x + source.first * c.inputs : scratch;
    const std::uint16_t *const weight = c.panels + panel * c.taps * c.inputs * kHalfPanel;
    std::int64_t tiles = (end - begin + kTileFrames - 1) / kTileFrames;
    for (; tiles > 0; tiles -= kTiles) {
        if (tiles >= kTiles) multiply<4>(c, rows, weight, totals);
        if (tiles == 3) multiply<3>(c, rows, weight, totals);
        if (tiles == 2) multiply<2>(c, rows, weight, totals);
        if (tiles == 1) multiply<1>(c, rows, weight, totals);
        rows += kTiles * kTileFrames * c.stride * c.inputs;
        totals += kTiles * kTileFrames * kHalfPanel;
    }
}

void round_to_bf16(const float *x, std::uint16_t *out, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(x + i));
        std::memcpy(out + i, &rounded, sizeof rounded);
    }
    if (i == count) return;
    const __mmask16 rest = __mmask16((1u << (count - i)) - 1);
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(rest, x + i));
    std::memcpy(out + i, &rounded, std::size_t(count - i) * 2);
}

}  // namespace

namespace amx {
extern const HalfKernels half;
const HalfKernels half = {HalfFormat::bf16, kTileColumns, scratch_halves, prepare, convolve, round_to_bf16};
}  // namespace amx

}  // namespace antiphon
