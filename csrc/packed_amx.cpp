// The packed product for x86 processors with AMX: sixteen tokens at a time through the matrix unit, fewer as with AVX-512.
//
// A tile instruction multiplies sixteen tokens by sixteen rows over one group (over half a group where each half has its
// scale). Its sums are exact, and the scales are applied as everywhere, so the bits are the same.

#include "packed_vnni.h"

namespace antiphon {
namespace {

constexpr int kTileTokens = 16;

// Shapes of the tile registers: 0 to 3 sums, 4 and 5 a group's and half a group's codes of tokens, 6 and 7 those of rows.
struct alignas(64) TileShapes {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 32, 16, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 8, 4};
};
static_assert(sizeof(TileShapes) == 64, "as the instruction reads it");

struct Amx : Vnni {
    static constexpr int kMicroTokens = kTileTokens;

    // The calling thread's tile registers, shaped while a product is computed.
    struct Session {
        Session() {
            const TileShapes shapes;
            asm volatile("ldtilecfg %0" : : "m"(shapes));
        }
        ~Session() { _tile_release(); }
    };

    template <int type, int tokens, bool direct>
    static void product(const std::uint8_t *codes, const Unpacked &unpacked, int groups, const TokenView &x, float *totals,
                        float *minima) {
        if constexpr (tokens == kTileTokens) {
            tile_product<type>(unpacked, groups, x, totals);
            if constexpr (PackedFormOf<type>::form.minimum) add_minima(unpacked, groups, x, minima);
        } else {
            Vnni::product<type, tokens, direct>(codes, unpacked, groups, x, totals, minima);
        }
    }

private:
    typedef std::int32_t Sums[2][kTileTokens][kPackedRows];  // the second of a group's other half

    template <int type> ANTIPHON_INLINE void multiply_group(const Unpacked &unpacked, int g, const TokenView &x, Sums &sums) {
        const std::int8_t *const values = x.codes + g * kPackedGroup;
        if constexpr (PackedFormOf<type>::form.halves) {
            _tile_zero(0);
            _tile_loadd(5, values, x.columns);
            _tile_loadd(7, unpacked.codes[g][0], 64);
            _tile_dpbsud(0, 5, 7);
            _tile_stored(0, sums[0], 64);
            _tile_zero(1);
            _tile_loadd(5, values + 16, x.columns);
            _tile_loadd(7, unpacked.codes[g][4], 64);
            _tile_dpbsud(1, 5, 7);
            _tile_stored(1, sums[1], 64);
        } else {
            _tile_zero(2);
            _tile_loadd(4, values, x.columns);
            _tile_loadd(6, unpacked.codes[g][0], 64);
            _tile_dpbsud(2, 4, 6);
            _tile_stored(2, sums[0], 64);
        }
    }

    template <int type>
    static void tile_product(const Unpacked &unpacked, int groups, const TokenView &x, float *totals) {
        constexpr PackedForm form = PackedFormOf<type>::form;
        constexpr int ahead = 2;  // groups whose sums are under way while others are scaled
        alignas(64) Sums sums[ahead + 1];
        __m512 total[kTileTokens];
#pragma GCC unroll 16
        for (int t = 0; t < kTileTokens; ++t) total[t] = _mm512_loadu_ps(totals + t * kPackedRows);
        for (int g = 0; g < ahead && g < groups; ++g) multiply_group<type>(unpacked, g, x, sums[g]);
        for (int g = 0; g < groups; ++g) {
            if (g + ahead < groups) multiply_group<type>(unpacked, g + ahead, x, sums[(g + ahead) % (ahead + 1)]);
            const Sums &own = sums[g % (ahead + 1)];
            const __m512 scale = _mm512_load_ps(unpacked.scales[g]);
#pragma GCC unroll 16
            for (int t = 0; t < kTileTokens; ++t) {
                __m512i whole[2];
                for (int h = 0; h < (form.halves ? 2 : 1); ++h) {
                    whole[h] = _mm512_load_si512(own[h][t]);
                    if constexpr (excess<type>) {
                        const std::int16_t *const half_sums = x.half_sums + (t * x.groups + g) * 2;
                        const int sum = form.halves ? half_sums[h] : half_sums[0] + half_sums[1];
                        whole[h] = _mm512_sub_epi32(whole[h], _mm512_set1_epi32(excess<type> * sum));
                    }
                }
                if constexpr (form.halves) {
                    whole[0] = _mm512_add_epi32(
                        _mm512_mullo_epi32(whole[0], _mm512_load_si512(unpacked.half_scales[g][0])),
                        _mm512_mullo_epi32(whole[1], _mm512_load_si512(unpacked.half_scales[g][1])));
                }
                const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[t * x.groups + g]));
                total[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[0]), both, total[t]);
            }
        }
#pragma GCC unroll 16
        for (int t = 0; t < kTileTokens; ++t) _mm512_storeu_ps(totals + t * kPackedRows, total[t]);
    }

    static void add_minima(const Unpacked &unpacked, int groups, const TokenView &x, float *minima) {
        __m512 least[kTileTokens];
#pragma GCC unroll 16
        for (int t = 0; t < kTileTokens; ++t) least[t] = _mm512_loadu_ps(minima + t * kPackedRows);
        for (int g = 0; g < groups; ++g) {
            const __m512 minimum = _mm512_load_ps(unpacked.minima[g]);
#pragma GCC unroll 16
            for (int t = 0; t < kTileTokens; ++t) {
                least[t] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(x.offsets[t * x.groups + g]), least[t]);
            }
        }
#pragma GCC unroll 16
        for (int t = 0; t < kTileTokens; ++t) _mm512_storeu_ps(minima + t * kPackedRows, least[t]);
    }
};

}  // namespace

namespace amx {
extern const PackedKernels packed;
const PackedKernels packed = {quantize_tokens<Vnni>, multiply_packed<Amx>, packed_scratch_bytes};
}  // namespace amx

}  // namespace antiphon
