#include "kernels.h"

namespace antiphon {

#define ANTIPHON_DECLARE(variant) \
    namespace variant { \
    const TypeKernels *find(int type); \
    extern const AttentionKernels attention; \
    extern const SamplingKernels sampling; \
    void rms_norm(const Norm &, std::int64_t, std::int64_t); \
    void layer_norm(const Norm &, std::int64_t, std::int64_t); \
    void rotate(const Rotation &, std::int64_t, std::int64_t); \
    void add(const RowSum &, std::int64_t, std::int64_t); \
    void segment_means(const SegmentMeans &, std::int64_t, std::int64_t); \
    void unit_rows(const UnitRows &, std::int64_t, std::int64_t); \
    void finish(const Epilogue &, std::int64_t, std::int64_t, std::int64_t, const float *, const float *, std::int64_t); \
    static const Variant kernels = { \
        #variant, find, &attention, {rms_norm, layer_norm, rotate, add, segment_means, unit_rows, finish}, &sampling}; \
    }
ANTIPHON_DECLARE(baseline)
#if defined(ANTIPHON_X86_VARIANTS)
ANTIPHON_DECLARE(avx2)
ANTIPHON_DECLARE(avx512)
#endif

const std::vector<Variant> &variants() {
    static const std::vector<Variant> found = [] {
        std::vector<Variant> list;
#if defined(ANTIPHON_X86_VARIANTS)
        // Every processor with FMA and AVX2 also has F16C.
        const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
        if (has_avx2 && has_avx512) list.push_back(avx512::kernels);
        if (has_avx2) list.push_back(avx2::kernels);
#endif
        list.push_back(baseline::kernels);
        return list;
    }();
    return found;
}

// A decoded tile of 16 rows of 256 floats, and eight lanes of totals per token and row of the tile.
std::size_t scratch_bytes(std::int64_t tokens) {
    return (kTileRows * 256 + std::size_t(tokens) * kTileRows * 8) * sizeof(float);
}

}  // namespace antiphon
