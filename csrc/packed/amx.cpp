// Packed product for x86 processors with AMX: sixteen tokens at a time in the matrix unit, fewer tokens with AVX-512.
//
// A tile instruction multiplies sixteen tokens by sixteen rows over one group. Its sums are exact, and scales are applied
// as in all variants, so the bits are the same. Types with a scale for each half of a group use vectors: their tiles would
// be half full, which is not faster.

#include "packed/vnni.h"

namespace antiphon {
namespace {

constexpr int kTileTokens = 16;

// Shapes of the tile registers: 0 sums, 1 codes of sixteen tokens, 2 codes of sixteen rows.
struct alignas(64) TileShapes {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 32, 64};
    std::uint8_t rows[16] = {16, 16, 8};
};
static_assert(sizeof(TileShapes) == 64, "as the instruction reads it");

struct Amx : Vnni {
    static constexpr int kMicroTokens = kTileTokens, kDirectTokens = 8;

    // Configures the calling thread's tile registers for one product.
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
        constexpr PackedForm form = PackedFormOf<type>::form;
        if constexpr (tokens < kTileTokens) {
            Vnni::product<type, tokens, direct>(codes, unpacked, groups, x, totals, minima);
        } else if constexpr (form.halves) {
            Vnni::product<type, 8, direct>(codes, unpacked, groups, x, totals, minima);
            Vnni::product<type, 8, direct>(codes, unpacked, groups, x.after(8), totals + 8 * kPackedRows, minima);
        } else {
            tile_product<type>(unpacked, groups, x, totals);
            if constexpr (form.minimum) add_minima<kTileTokens>(unpacked, groups, x, minima);
        }
    }

private:
    typedef std::int32_t Sums[kTileTokens][kPackedRows];

    ANTIPHON_INLINE void multiply_group(const Unpacked &unpacked, int g, const TokenView &x, Sums &sums) {
        _tile_zero(0);
        _tile_loadd(1, x.codes + g * kPackedGroup, x.stride);
        _tile_loadd(2, unpacked.codes[g], 64);
        _tile_dpbsud(0, 1, 2);
        _tile_stored(0, sums, 64);
    }

    template <int type>
    static void tile_product(const Unpacked &unpacked, int groups, const TokenView &x, float *totals) {
        constexpr int ahead = 2;  // groups whose products are in flight while earlier groups are scaled
        alignas(64) Sums sums[ahead + 1];
        __m512 total[kTileTokens];
#pragma GCC unroll 16
        for (int t = 0; t < kTileTokens; ++t) total[t] = _mm512_loadu_ps(totals + t * kPackedRows);
        for (int g = 0; g < ahead && g < groups; ++g) multiply_group(unpacked, g, x, sums[g]);
        for (int g = 0; g < groups; ++g) {
            if (g + ahead < groups) multiply_group(unpacked, g + ahead, x, sums[(g + ahead) % (ahead + 1)]);
            const Sums &own = sums[g % (ahead + 1)];
            const __m512 scale = _mm512_load_ps(unpacked.scales[g]);
#pragma GCC unroll 16
            for (int t = 0; t < kTileTokens; ++t) {
                __m512i whole = _mm512_load_si512(own[t]);
                if constexpr (excess<type>) {
                    const std::int16_t *const half_sums = x.half_sums + (t * x.groups + g) * 2;
                    whole = _mm512_sub_epi32(whole, _mm512_set1_epi32(excess<type> * (half_sums[0] + half_sums[1])));
                }
                const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[t * x.groups + g]));
                total[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole), both, total[t]);
            }
        }
#pragma GCC unroll 16
        for (int t = 0; t < kTileTokens; ++t) _mm512_storeu_ps(totals + t * kPackedRows, total[t]);
    }
};

}  // namespace

namespace amx {
extern const PackedKernels packed;
const PackedKernels packed = {quantize_tokens<Vnni>, multiply_packed<Amx>, packed_scratch_bytes};
}  // namespace amx

}  // namespace antiphon
