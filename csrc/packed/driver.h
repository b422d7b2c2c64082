// Loops over tokens, tiles and blocks that the packed kernels of all instruction sets share.
//
// `Machine` multiplies one block with up to kMicroTokens tokens together. For up to kDirectTokens tokens in all, codes are
// unpacked in registers and used there, else they are unpacked to a copy. For up to kFewTokens of a type, `Machine`
// multiplies whole tiles by itself. With kFetchesGroups, later blocks are prefetched group by group, else the next block at
// once. A Session lives as long as a product. Compiled once per instruction set, so everything here has internal linkage.

#pragma once

#include <cstring>

#include "base/vector.h"
#include "packed/format.h"

namespace antiphon {
namespace {

constexpr std::int64_t kBlockColumns = kBlockGroups * kPackedGroup;
constexpr std::size_t kPrefetchBytes = 8192;  // distance of prefetched from multiplied bytes
constexpr std::int64_t kTokenBlockBytes = 1 << 18;  // bytes of quantised x that stay in the second-level cache

// Scales of a block as floats, and its codes in one byte each, [groups][8][16][4] in the form that `Machine` multiplies.
struct alignas(64) Unpacked {
    float scales[kBlockGroups][kPackedRows];                  // W
    float minima[kBlockGroups][kPackedRows];                  // M
    float half_scales[kBlockGroups][2][kPackedRows];          // scales of Q6_K, integers: products with sums are exact
    std::int8_t codes[kBlockGroups][8][kPackedRows][4];
};

// Quantised x of consecutive tokens, from one group on.
struct TokenView {
    const std::int8_t *codes;
    const float *scales, *offsets;
    const std::int16_t *half_sums;
    std::int64_t stride, groups;  // bytes of codes, and groups, from token to token

    TokenView(const Activations &x, std::int64_t token, std::int64_t group)
        : codes(x.codes + token * x.stride + group * kPackedGroup), scales(x.scales + token * x.groups() + group),
          offsets(x.offsets + token * x.groups() + group), half_sums(x.half_sums + (token * x.groups() + group) * 2),
          stride(x.stride), groups(x.groups()) {}

    // Returns the view from a later token on.
    TokenView after(std::int64_t tokens) const {
        TokenView view = *this;
        view.codes += tokens * stride;
        view.scales += tokens * groups;
        view.offsets += tokens * groups;
        view.half_sums += tokens * groups * 2;
        return view;
    }
};

std::int64_t token_block(std::int64_t columns) {
    const std::int64_t fitting = kTokenBlockBytes / columns / 16 * 16;
    return fitting < 64 ? 64 : fitting > 256 ? 256 : fitting;
}

std::size_t packed_scratch_bytes(std::int64_t tokens, std::int64_t columns) {
    const std::int64_t block = token_block(columns), count = tokens < block ? tokens : block;
    return sizeof(Unpacked) + std::size_t(2 * count * kPackedRows) * sizeof(float);
}

template <class Machine, int type> struct Driver {
    static constexpr PackedForm form = PackedFormOf<type>::form;
    static constexpr std::size_t kGroupBytes = form.block_bytes(kBlockGroups) / kBlockGroups;

    // Multiplies as many tokens together as the machine can, at most `most`; returns how many.
    template <bool direct, int most>
    static int take_tokens(const std::uint8_t *codes, const Unpacked &unpacked, int groups, const TokenView &x,
                           std::int64_t tokens, float *totals, float *minima) {
        if constexpr (most > 1) {
            if (tokens < most) {
                constexpr int fewer = most > 8 ? 8 : most - 1;
                return take_tokens<direct, fewer>(codes, unpacked, groups, x, tokens, totals, minima);
            }
        }
        Machine::template product<type, most, direct>(codes, unpacked, groups, x, totals, minima);
        return most;
    }

    // Multiplies some tokens with one block, and adds to the totals [tokens][16].
    template <bool direct>
    static void block_tokens(const PackedProduct &p, const std::uint8_t *codes, const Unpacked &unpacked, int groups,
                             std::int64_t first_group, std::int64_t token, std::int64_t tokens, float *totals,
                             float *minima) {
        while (tokens > 0) {
            constexpr int most = direct ? Machine::kDirectTokens : Machine::kMicroTokens;
            const TokenView x(p.x, token, first_group);
            const int count = take_tokens<direct, most>(codes, unpacked, groups, x, tokens, totals, minima);
            token += count;
            tokens -= count;
            totals += count * kPackedRows;
            minima += count * kPackedRows;
        }
    }

    static void tile_tokens(const PackedProduct &p, const std::uint8_t *tile, std::int64_t token, std::int64_t tokens,
                            Unpacked &unpacked, float *totals, float *minima) {
        if constexpr (Machine::template kFewTokens<type> > 0) {
            if (tokens <= Machine::template kFewTokens<type>) {
                return Machine::template few_tokens<type>(tile, TokenView(p.x, token, 0), tokens, totals, minima);
            }
        }
        std::memset(totals, 0, tokens * kPackedRows * sizeof(float));
        if (form.minimum) std::memset(minima, 0, tokens * kPackedRows * sizeof(float));
        const std::int64_t groups = p.x.groups();
        for (std::int64_t first = 0; first < groups; first += kBlockGroups) {
            const int count = int(groups - first < kBlockGroups ? groups - first : kBlockGroups);
            const std::uint8_t *const codes = tile + form.head_bytes(count);
            Machine::template read_head<type>(tile, count, unpacked);
            const std::uint8_t *const block = tile;
            tile += form.block_bytes(count);
            if constexpr (Machine::kDirectTokens > 0) {
                if (tokens <= Machine::kDirectTokens) {
                    for (const std::uint8_t *line = block; line < tile; line += 64) __builtin_prefetch(line + kPrefetchBytes, 0, 2);
                    block_tokens<true>(p, codes, unpacked, count, first, token, tokens, totals, minima);
                    continue;
                }
            }
            for (int g = 0; g < count; ++g) {
                if constexpr (Machine::kFetchesGroups) {
                    const std::uint8_t *const ahead = block + kPrefetchBytes + g * kGroupBytes;
                    for (std::size_t i = 0; i < kGroupBytes + 64; i += 64) __builtin_prefetch(ahead + i, 0, 2);
                }
                Machine::template unpack_codes<type>(codes + g * form.code_bytes(), unpacked.codes[g]);
            }
            if constexpr (!Machine::kFetchesGroups) {
                for (std::size_t i = 0; i < form.block_bytes(kBlockGroups); i += 64) __builtin_prefetch(tile + i);
            }
            block_tokens<false>(p, codes, unpacked, count, first, token, tokens, totals, minima);
        }
    }

    static void multiply(const PackedProduct &p, std::int64_t begin, std::int64_t end, void *scratch) {
        [[maybe_unused]] const typename Machine::Session session;
        Unpacked &unpacked = *static_cast<Unpacked *>(scratch);
        const std::int64_t block = token_block(p.x.columns);
        const std::size_t tile_bytes = form.tile_bytes(p.x.groups());
        for (std::int64_t token = 0; token < p.x.tokens; token += block) {
            const std::int64_t tokens = p.x.tokens - token < block ? p.x.tokens - token : block;
            float *const totals = reinterpret_cast<float *>(&unpacked + 1), *const minima = totals + tokens * kPackedRows;
            for (std::int64_t tile = begin / kPackedRows; tile * kPackedRows < end; ++tile) {
                tile_tokens(p, p.packed + tile * tile_bytes, token, tokens, unpacked, totals, minima);
                const std::int64_t first = tile * kPackedRows;
                const int low = int(begin > first ? begin - first : 0);
                const int high = int(end - first < kPackedRows ? end - first : kPackedRows);
                for (std::int64_t t = 0; t < tokens; ++t) {
                    float *const y = p.y + (token + t) * p.y_stride + first;
                    const float *const total = totals + t * kPackedRows, *const least = minima + t * kPackedRows;
                    if (high - low == kPackedRows) {
                        for (int r = 0; r < kPackedRows; ++r) y[r] = form.minimum ? total[r] + least[r] : total[r];
                    } else {
                        for (int r = low; r < high; ++r) y[r] = form.minimum ? total[r] + least[r] : total[r];
                    }
                }
            }
        }
    }
};

template <class Machine> void multiply_packed(const PackedProduct &p, std::int64_t begin, std::int64_t end, void *scratch) {
    switch (p.type) {
    case 2: return Driver<Machine, 2>::multiply(p, begin, end, scratch);
    case 3: return Driver<Machine, 3>::multiply(p, begin, end, scratch);
    case 6: return Driver<Machine, 6>::multiply(p, begin, end, scratch);
    case 7: return Driver<Machine, 7>::multiply(p, begin, end, scratch);
    case 8: return Driver<Machine, 8>::multiply(p, begin, end, scratch);
    case 12: return Driver<Machine, 12>::multiply(p, begin, end, scratch);
    case 13: return Driver<Machine, 13>::multiply(p, begin, end, scratch);
    case 14: return Driver<Machine, 14>::multiply(p, begin, end, scratch);
    }
}

// Quantises tokens group by group: Machine::quantize_group(x, inverse, codes, half_sums) follows the largest magnitude.
template <class Machine>
void quantize_tokens(const float *x, std::int64_t x_stride, std::int64_t begin, std::int64_t end, const Activations &a) {
    const std::int64_t groups = a.groups();
    for (std::int64_t t = begin; t < end; ++t) {
        for (std::int64_t g = 0; g < groups; ++g) {
            const float *const source = x + t * x_stride + g * kPackedGroup;
            std::int8_t *const codes = a.codes + t * a.stride + g * kPackedGroup;
            std::int16_t *const half_sums = a.half_sums + (t * groups + g) * 2;
            const std::uint32_t magnitude = Machine::largest_magnitude(source);
            float scale = bits_to_float(0x7FC00000u);  // NaN
            if (magnitude >= 0x0D800000u && magnitude < 0x7F800000u) {  // 2^-100 and infinity
                scale = bits_to_float(magnitude) / 127.0f;
                Machine::quantize_group(source, 127.0f / bits_to_float(magnitude), codes, half_sums);
            } else {
                if (magnitude < 0x7F800000u) scale = 0;
                std::memset(codes, 0, kPackedGroup);
                half_sums[0] = half_sums[1] = 0;
            }
            a.scales[t * groups + g] = scale;
            a.offsets[t * groups + g] = scale * float(half_sums[0] + half_sums[1]);
        }
    }
}

}  // namespace
}  // namespace antiphon
