#include "base/variant.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(ANTIPHON_X86_VARIANTS)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace antiphon {

// Declares the tables, which each folder defines once per instruction set.
#define ANTIPHON_DECLARE(variant) \
    namespace variant { \
    const TypeKernels *find(int type); \
    extern const AttentionKernels attention; \
    extern const RowKernels rows; \
    extern const FrameKernels frames; \
    extern const SamplingKernels sampling; \
    extern const SoftmaxKernels softmax; \
    extern const LimitKernels limits; \
    static const Variant kernels = {#variant,  find,    &attention, &rows,   &frames, &sampling, \
                                    &softmax, &limits, nullptr,    nullptr, nullptr, nullptr}; \
    }
ANTIPHON_DECLARE(baseline)
#if defined(ANTIPHON_X86_VARIANTS)
ANTIPHON_DECLARE(avx2)
ANTIPHON_DECLARE(avx512)
#endif

// Kernels for packed weights; an instruction set without its own uses those of a smaller set.
#define ANTIPHON_DECLARE_PACKED(name) \
    namespace name { \
    extern const PackedKernels packed; \
    }
ANTIPHON_DECLARE_PACKED(portable)
#if defined(ANTIPHON_X86_VARIANTS)
ANTIPHON_DECLARE_PACKED(avx2)
#endif
#if defined(ANTIPHON_ARM_VARIANTS)
ANTIPHON_DECLARE_PACKED(dotprod)
namespace dotprod {
extern const ScaledKernels scaled;
extern const Int8AttentionKernels int8_attention;
}
namespace fp16 {
extern const HalfKernels half;
}
#endif
#if defined(ANTIPHON_X86_VARIANTS)
namespace amx {
extern const HalfKernels half;
extern const ScaledKernels scaled;
}
ANTIPHON_DECLARE_PACKED(avx512vnni)
ANTIPHON_DECLARE_PACKED(amx)

// Whether the processor has AMX and the system lets this process use it, which must be requested once. Every processor
// with AMX supports int8 and bf16 in it, and AVX-512 with bf16.
static bool may_use_amx() {
#if defined(__linux__)
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    constexpr unsigned bf16 = 1u << 22, tiles = 1u << 24, int8 = 1u << 25, needed = bf16 | tiles | int8;
    constexpr long request_permission = 0x1023, tile_data = 18;
    return (d & needed) == needed && __builtin_cpu_supports("avx512bf16") &&
           syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}
#endif

#if defined(__aarch64__)
#if defined(__linux__)
bool has_dot_products() { return getauxval(AT_HWCAP) & 1ul << 20; }    // HWCAP_ASIMDDP
bool has_half_arithmetic() { return getauxval(AT_HWCAP) & 1ul << 10; }  // HWCAP_ASIMDHP
#elif defined(__APPLE__)
// Every ARM processor that runs macOS has both.
bool has_dot_products() { return true; }
bool has_half_arithmetic() { return true; }
#else
bool has_dot_products() { return false; }
bool has_half_arithmetic() { return false; }
#endif
#endif

static Variant with_packed(Variant variant, const char *name, const PackedKernels &packed) {
    variant.name = name;
    variant.packed = &packed;
    return variant;
}

const std::vector<Variant> &variants() {
    static const std::vector<Variant> found = [] {
        std::vector<Variant> list;
#if defined(ANTIPHON_X86_VARIANTS)
        // Every processor with FMA and AVX2 also has F16C.
        const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
        if (has_avx2 && has_avx512 && __builtin_cpu_supports("avx512vnni")) {
            if (may_use_amx()) {
                list.push_back(with_packed(avx512::kernels, "amx", amx::packed));
                list.back().half = &amx::half;
                list.back().scaled = &amx::scaled;
            }
            list.push_back(with_packed(avx512::kernels, "avx512vnni", avx512vnni::packed));
        }
        if (has_avx2 && has_avx512) list.push_back(with_packed(avx512::kernels, "avx512", avx2::packed));
        if (has_avx2) list.push_back(with_packed(avx2::kernels, "avx2", avx2::packed));
#endif
#if defined(ANTIPHON_ARM_VARIANTS)
        if (has_dot_products()) {
            list.push_back(with_packed(baseline::kernels, "dotprod", dotprod::packed));
            list.back().scaled = &dotprod::scaled;
            if (has_half_arithmetic()) {
                list.back().half = &fp16::half;
                list.back().int8_attention = &dotprod::int8_attention;
            }
        }
#endif
        list.push_back(with_packed(baseline::kernels, "baseline", portable::packed));
        return list;
    }();
    return found;
}

}  // namespace antiphon
