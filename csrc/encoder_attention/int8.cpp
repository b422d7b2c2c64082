#include "encoder_attention/int8.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "encoder_attention/int8_kernels.h"
#include "encoder_attention/whole.h"

namespace antiphon {
namespace {

constexpr std::int64_t kQueries = 32;  // queries of a task: their weights stay in the first-level cache

struct Work : WholeAttention {
    std::int64_t groups() const { return columns / kGroupKeys; }

    Int8Head head(std::int64_t index) const {
        auto *const keys = reinterpret_cast<std::int8_t *>(keys_of(index));
        auto *const values = reinterpret_cast<std::int8_t *>(values_of(index));
        return {length,  groups(), head_dim, keys, reinterpret_cast<float *>(keys + columns * head_dim),
                values, reinterpret_cast<float *>(values + columns * head_dim)};
    }

    // An odd number of cache lines: with an even number, rows of weights would conflict in the cache.
    std::int64_t weight_stride() const { return padded(columns, 64) | 64; }

    Int8Queries queries(std::int64_t count, int thread) const {
        char *memory = scratch + thread * thread_bytes;
        const auto take = [&](std::size_t bytes) {
            char *const taken = memory;
            memory += aligned(bytes);
            return taken;
        };
        const auto floats = [&](std::int64_t rows) { return reinterpret_cast<float *>(take(rows * kQueries * sizeof(float))); };
        auto *const codes = reinterpret_cast<std::int8_t *>(take(kQueries * head_dim));
        auto *const weights = reinterpret_cast<std::int8_t *>(take(kQueries * weight_stride()));
        float *const factors = floats(1), *const tops = floats(groups()), *const sums = floats(groups());
        return {count, padded(count, kQueryTile), codes, factors, weights, weight_stride(), tops, sums, floats(1)};
    }

    static void pack(void *context, std::uint32_t index, int) {
        const Work &w = *static_cast<const Work *>(context);
        const std::int64_t head = index / 2;
        const HeadRows &rows = index % 2 ? w.v : w.k;
        const float *const source = rows.data + w.first * rows.token_stride + head * rows.head_stride;
        const Int8AttentionKernels &kernels = *w.variant->int8_attention;
        (index % 2 ? kernels.pack_values : kernels.pack_keys)(source, rows.token_stride, w.head(head));
    }

    static void attend(void *context, std::uint32_t index, int thread) {
        const Work &w = *static_cast<const Work *>(context);
        const std::int64_t tasks = (w.length + kQueries - 1) / kQueries;
        const std::int64_t head = index / tasks, begin = index % tasks * kQueries, token = w.first + begin;
        const Int8Head own = w.head(head / (w.heads / w.kv_heads));
        const Int8Queries queries = w.queries(std::min(kQueries, w.length - begin), thread);
        const Int8AttentionKernels &kernels = *w.variant->int8_attention;
        kernels.round_queries(w.q.data + token * w.q.token_stride + head * w.q.head_stride, w.q.token_stride, w.head_dim,
                              w.scale, queries);
        kernels.weigh(own, queries);
        kernels.combine(own, queries, w.out + (token * w.heads + head) * w.head_dim, w.heads * w.head_dim);
    }

    void run(int threads) {
        columns = padded(length, kGroupKeys);
        key_bytes = aligned(columns * head_dim + groups() * sizeof(float));
        value_bytes = aligned(columns * head_dim + head_dim * sizeof(float));
        thread_bytes = aligned(kQueries * head_dim) + aligned(kQueries * weight_stride()) +
                       2 * aligned(groups() * kQueries * sizeof(float)) + 2 * aligned(kQueries * sizeof(float));
        reserve(threads);
        run_tasks(std::uint32_t(2 * kv_heads), threads, pack, this);
        run_tasks(std::uint32_t(heads * ((length + kQueries - 1) / kQueries)), threads, attend, this);
    }
};

}  // namespace

void attend_int8(const HeadRows &q, const HeadRows &k, const HeadRows &v, std::int64_t heads, std::int64_t kv_heads,
                 std::int64_t head_dim, const std::int32_t *seq_start, std::int64_t sequences, float scale, float *out,
                 int threads, const Variant &variant) {
    attend_each(Work{{q, k, v, heads, kv_heads, head_dim, scale, out, &variant}}, seq_start, sequences, threads);
}

}  // namespace antiphon
