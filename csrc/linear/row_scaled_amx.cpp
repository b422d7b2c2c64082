// Row-scaled products for x86 processors with AMX: sixteen tokens by sixteen rows over 64 columns to an instruction.

#include <immintrin.h>

#include <cmath>
#include <cstring>

#include "base/tiles_amx.h"
#include "linear/row_scaled.h"

namespace antiphon {
namespace {

constexpr std::int64_t kTileTokens = 16;
constexpr int kTiles = 4;  // tiles of tokens summed together, in registers 0 to 3; codes in 4 to 6, weights in 7

#define ANTIPHON_TILE(number, tile) \
    if constexpr (tiles > number) { \
        _tile_loadd(tile, x + number * kTileTokens * p.columns, p.columns); \
        _tile_dpbssd(number, tile, 7); \
    }
#define ANTIPHON_STORE(number) \
    if constexpr (tiles > number) _tile_stored(number, sums + number * kTileTokens * kScaledRows, kScaledRows * 4);

// Computes sums[token][16] of `tiles` times sixteen tokens.
template <int tiles>
void multiply_tiles(const ScaledProduct &p, const std::int8_t *rows, const std::int8_t *weight, std::int32_t *sums) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::int64_t column = 0; column < p.columns; column += kScaledColumns, weight += kScaledColumns * kScaledRows) {
        const std::int8_t *const x = rows + column;
        _tile_loadd(7, weight, 64);
        ANTIPHON_TILE(0, 4)
        ANTIPHON_TILE(1, 5)
        ANTIPHON_TILE(2, 6)
        ANTIPHON_TILE(3, 4)
    }
    ANTIPHON_STORE(0)
    ANTIPHON_STORE(1)
    ANTIPHON_STORE(2)
    ANTIPHON_STORE(3)
}
#undef ANTIPHON_STORE
#undef ANTIPHON_TILE

void multiply(const ScaledProduct &p, std::int64_t panel, std::int64_t begin, std::int64_t end, float *totals) {
    const TileSession session;
    const std::int8_t *const weight = p.panels + panel * p.columns * kScaledRows;
    const __m512 scales = _mm512_loadu_ps(p.row_scales + panel * kScaledRows);
    alignas(64) std::int32_t sums[kTiles * kTileTokens * kScaledRows];
    for (std::int64_t token = begin; token < end; token += kTiles * kTileTokens) {
        const std::int64_t tokens = end - token, tiles = (tokens + kTileTokens - 1) / kTileTokens;
        const std::int8_t *const rows = p.x + token * p.columns;
        if (tiles >= kTiles) multiply_tiles<4>(p, rows, weight, sums);
        if (tiles == 3) multiply_tiles<3>(p, rows, weight, sums);
        if (tiles == 2) multiply_tiles<2>(p, rows, weight, sums);
        if (tiles == 1) multiply_tiles<1>(p, rows, weight, sums);
        const std::int64_t count = tokens < kTiles * kTileTokens ? tokens : kTiles * kTileTokens;
        for (std::int64_t t = 0; t < count; ++t, totals += kScaledRows) {
            const __m512 exact = _mm512_cvtepi32_ps(_mm512_load_si512(sums + t * kScaledRows));
            _mm512_storeu_ps(totals, _mm512_mul_ps(exact, _mm512_mul_ps(scales, _mm512_set1_ps(p.x_scales[token + t]))));
        }
    }
}

void quantize(const float *x, std::int64_t columns, std::int8_t *codes, float *scale) {
    const __m512i sign = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i largest = _mm512_setzero_si512();
    for (std::int64_t i = 0; i < columns; i += 16) {
        largest = _mm512_max_epu32(largest, _mm512_and_si512(_mm512_loadu_si512(x + i), sign));
    }
    const std::uint32_t bits = _mm512_reduce_max_epu32(largest);
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
    const bool is_finite = bits < 0x7F800000u, is_zero = bits < 0x0D800000u;  // infinity, 2^-100
    *scale = !is_finite ? NAN : is_zero ? 0.0f : magnitude / 127.0f;
    if (!is_finite || is_zero) {
        std::memset(codes, 0, std::size_t(columns));
        return;
    }
    const __m512 inverse = _mm512_set1_ps(127.0f / magnitude);
    for (std::int64_t i = 0; i < columns; i += 16) {
        const __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), inverse));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(codes + i), _mm512_cvtepi32_epi8(rounded));
    }
}

}  // namespace

namespace amx {
extern const ScaledKernels scaled;
const ScaledKernels scaled = {multiply, quantize};
}  // namespace amx

}  // namespace antiphon
