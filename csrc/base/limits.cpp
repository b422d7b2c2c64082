#include "base/limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/scratch.h"
#include "base/thread_pool.h"
#include "base/variant.h"

namespace antiphon {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begun) { return std::chrono::duration<double>(Clock::now() - begun).count(); }

struct Reading {
    static constexpr std::size_t kPiece = std::size_t(1) << 18;
    const LimitKernels *kernels;
    const char *data;
    std::size_t bytes;

    static void run(void *context, std::uint32_t index, int) {
        const Reading &work = *static_cast<const Reading *>(context);
        const std::size_t begin = index * kPiece;
        volatile float kept = work.kernels->read(work.data + begin, std::min(kPiece, work.bytes - begin));
        (void)kept;
    }
};

constexpr int kChains = 12;  // independent sums

#if defined(__aarch64__)
constexpr std::int64_t kInt8Multiplications = kChains * 16;
bool has_int8() { return has_dot_products(); }
__attribute__((target("arch=armv8.2-a+dotprod"))) float multiply_int8(std::int64_t rounds) {
    int32x4_t totals[kChains];
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) totals[c] = vdupq_n_s32(0);
    const int8x16_t x = vdupq_n_s8(std::int8_t(rounds)), w = vdupq_n_s8(3);
    for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
        for (int c = 0; c < kChains; ++c) asm("sdot %0.4s, %1.16b, %2.16b" : "+w"(totals[c]) : "w"(x), "w"(w));
    }
    int32x4_t all = totals[0];
#pragma GCC unroll 12
    for (int c = 1; c < kChains; ++c) all = vaddq_s32(all, totals[c]);
    return float(vaddvq_s32(all));
}
#elif defined(__x86_64__)
constexpr std::int64_t kInt8Multiplications = kChains * 64;
bool has_int8() { return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw"); }
__attribute__((target("avx512f,avx512bw,avx512vnni"))) float multiply_int8(std::int64_t rounds) {
    __m512i totals[kChains];
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) totals[c] = _mm512_setzero_si512();
    const __m512i x = _mm512_set1_epi8(char(rounds)), w = _mm512_set1_epi8(3);
    for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
        for (int c = 0; c < kChains; ++c) totals[c] = _mm512_dpbusd_epi32(totals[c], x, w);
    }
    __m512i all = totals[0];
#pragma GCC unroll 12
    for (int c = 1; c < kChains; ++c) all = _mm512_add_epi32(all, totals[c]);
    return float(_mm512_reduce_add_epi32(all));
}
#else
constexpr std::int64_t kInt8Multiplications = 0;
bool has_int8() { return false; }
float multiply_int8(std::int64_t) { return 0; }
#endif

struct Multiplying {
    float (*multiply)(std::int64_t rounds);
    std::int64_t rounds;

    static void run(void *context, std::uint32_t, int) {
        const Multiplying &work = *static_cast<const Multiplying *>(context);
        volatile float kept = work.multiply(work.rounds);
        (void)kept;
    }
};

double rate_of(float (*multiply)(std::int64_t), std::int64_t multiplications, double seconds, int threads) {
    Multiplying work{multiply, 1 << 14};
    double best = 0, spent = 0;
    const std::uint32_t tasks = std::uint32_t(std::max(threads, 1)) * 4;
    while (spent < seconds) {
        const auto begun = Clock::now();
        run_tasks(tasks, threads, Multiplying::run, &work);
        const double took = seconds_since(begun);
        best = std::max(best, double(tasks) * double(work.rounds) * double(multiplications) / took);
        spent += took;
    }
    return best;
}

}  // namespace

double read_rate(std::size_t bytes, int repeats, int threads, const LimitKernels &kernels) {
    bytes = std::max<std::size_t>(256, bytes / 256 * 256);
    Scratch scratch;
    char *const data = scratch.reserve(bytes);
    std::memset(data, 0, bytes);
    Reading work{&kernels, data, bytes};
    const auto pieces = std::uint32_t((bytes + Reading::kPiece - 1) / Reading::kPiece);
    double best = 0;
    for (int i = 0; i < repeats; ++i) {
        const auto begun = Clock::now();
        run_tasks(pieces, threads, Reading::run, &work);
        best = std::max(best, double(bytes) / seconds_since(begun));
    }
    return best;
}

double multiply_rate(double seconds, int threads, const LimitKernels &kernels) {
    return rate_of(kernels.multiply, kernels.multiplications, seconds, threads);
}

double int8_multiply_rate(double seconds, int threads) {
    return has_int8() ? rate_of(multiply_int8, kInt8Multiplications, seconds, threads) : 0;
}

}  // namespace antiphon
