#include "encoder_attention/half.h"

#include <algorithm>
#include <cstring>

#include "base/thread_pool.h"
#include "encoder_attention/softmax.h"
#include "encoder_attention/whole.h"
#include "half/kernels.h"

namespace antiphon {
namespace {

constexpr std::int64_t kQueries = 64;  // queries of a task: their scores stay in the second-level cache

// Index of a column of a panel's row; two columns of a row are side by side.
std::int64_t panel_index(std::int64_t column, std::int64_t row) { return (column / 2 * kHalfPanel + row) * 2 + column % 2; }

struct Work : WholeAttention {
    // Packs a head's keys to panels of sixteen keys, its values to panels of sixteen channels.
    static void pack(void *context, std::uint32_t index, int thread) {
        const Work &w = *static_cast<const Work *>(context);
        auto *const rounded = reinterpret_cast<std::uint16_t *>(w.scratch + thread * w.thread_bytes);
        auto *const keys = reinterpret_cast<std::uint16_t *>(w.keys_of(index));
        auto *const values = reinterpret_cast<std::uint16_t *>(w.values_of(index));
        std::memset(keys, 0, w.key_bytes);
        std::memset(values, 0, w.value_bytes);
        for (std::int64_t t = 0; t < w.length; ++t) {
            const std::int64_t token = w.first + t;
            w.variant->half->round(w.k.data + token * w.k.token_stride + index * w.k.head_stride, rounded, w.head_dim);
            std::uint16_t *const panel = keys + t / kHalfPanel * kHalfPanel * w.head_dim;
            for (std::int64_t d = 0; d < w.head_dim; ++d) panel[panel_index(d, t % kHalfPanel)] = rounded[d];
            w.variant->half->round(w.v.data + token * w.v.token_stride + index * w.v.head_stride, rounded, w.head_dim);
            for (std::int64_t d = 0; d < w.head_dim; ++d) {
                values[d / kHalfPanel * kHalfPanel * w.columns + panel_index(t, d % kHalfPanel)] = rounded[d];
            }
        }
    }

    // Computes totals[row][16] of one panel, for `rows` rows of `inputs` columns.
    void multiply(const char *panels, std::int64_t panel, const std::uint16_t *x, std::int64_t rows,
                  std::int64_t inputs, float *totals) const {
        const auto *const own = reinterpret_cast<const std::uint16_t *>(panels);
        const HalfConvolution product{own, 1, inputs, 1, 1, 0, 0, 1, x, padded(rows, kHalfPanel), nullptr};
        variant->half->convolve(product, panel, 0, rows, nullptr, totals);
    }

    static void attend(void *context, std::uint32_t index, int thread) {
        const Work &w = *static_cast<const Work *>(context);
        const std::int64_t blocks = (w.length + kQueries - 1) / kQueries;
        const std::int64_t head = index / blocks, begin = index % blocks * kQueries;
        const std::int64_t count = std::min(kQueries, w.length - begin), kv_head = head / (w.heads / w.kv_heads);
        char *memory = w.scratch + thread * w.thread_bytes;
        auto *const scores = reinterpret_cast<float *>(memory);
        auto *const queries = reinterpret_cast<std::uint16_t *>(memory += aligned(kQueries * w.columns * sizeof(float)));
        auto *const weights = reinterpret_cast<std::uint16_t *>(memory + aligned(kQueries * w.head_dim * 2));
        alignas(64) float totals[kQueries * kHalfPanel];
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t token = w.first + begin + i;
            w.variant->half->round(w.q.data + token * w.q.token_stride + head * w.q.head_stride, queries + i * w.head_dim,
                                   w.head_dim);
        }
        for (std::int64_t panel = 0; panel * kHalfPanel < w.columns; ++panel) {
            w.multiply(w.keys_of(kv_head), panel, queries, count, w.head_dim, totals);
            for (std::int64_t i = 0; i < count; ++i) {
                std::memcpy(scores + i * w.columns + panel * kHalfPanel, totals + i * kHalfPanel, kHalfPanel * sizeof(float));
            }
        }
        float shares[kQueries];
        for (std::int64_t i = 0; i < count; ++i) {
            float *const row = scores + i * w.columns;
            shares[i] = 1.0f / w.variant->softmax->exponentiate(row, w.length, w.columns, w.scale);
            w.variant->half->round(row, weights + i * w.columns, w.columns);
        }
        for (std::int64_t panel = 0; panel * kHalfPanel < w.head_dim; ++panel) {
            w.multiply(w.values_of(kv_head), panel, weights, count, w.columns, totals);
            for (std::int64_t i = 0; i < count; ++i) {
                float *const target = w.out + ((w.first + begin + i) * w.heads + head) * w.head_dim + panel * kHalfPanel;
                for (std::int64_t d = 0; d < kHalfPanel; ++d) target[d] = totals[i * kHalfPanel + d] * shares[i];
            }
        }
    }

    void run(int threads) {
        columns = padded(length, std::max(variant->half->columns, kHalfPanel));
        key_bytes = aligned(std::size_t(columns * head_dim) * 2);
        value_bytes = key_bytes;
        thread_bytes = aligned(kQueries * columns * sizeof(float)) + aligned(kQueries * head_dim * 2) +
                       aligned(std::size_t(kQueries * columns) * 2);
        reserve(threads);
        run_tasks(std::uint32_t(kv_heads), threads, pack, this);
        run_tasks(std::uint32_t(heads * ((length + kQueries - 1) / kQueries)), threads, attend, this);
    }
};

}  // namespace

void attend_half(const HeadRows &q, const HeadRows &k, const HeadRows &v, std::int64_t heads, std::int64_t kv_heads,
                 std::int64_t head_dim, const std::int32_t *seq_start, std::int64_t sequences, float scale, float *out,
                 int threads, const Variant &variant) {
    attend_each(Work{{q, k, v, heads, kv_heads, head_dim, scale, out, &variant}}, seq_start, sequences, threads);
}

}  // namespace antiphon
