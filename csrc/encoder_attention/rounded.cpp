#include "encoder_attention/rounded.h"

#include <algorithm>
#include <cstring>

#include "base/thread_pool.h"
#include "encoder_attention/half.h"
#include "encoder_attention/int8.h"
#include "encoder_attention/softmax.h"
#include "encoder_attention/whole.h"
#include "half/kernels.h"
#include "linear/quantize.h"
#include "packed/format.h"

namespace antiphon {
namespace {

constexpr int kType = 8;                // Q8_0
constexpr std::int64_t kQueries = 32;  // queries of a task: their scores stay in the second-level cache

struct Work : WholeAttention {
    std::size_t packing_bytes() const {
        const std::size_t rows = kPackedRows * quantized_row_bytes(kType, std::max(columns, head_dim));
        return aligned(kPackedRows * columns * sizeof(float)) + aligned(rows);
    }
    std::size_t attending_bytes() const {
        const PackedKernels &kernels = *variant->packed;
        return aligned(kQueries * columns * sizeof(float)) + aligned(kQueries * head_dim * sizeof(float)) +
               activation_bytes(kQueries, head_dim) + activation_bytes(kQueries, columns) +
               aligned(std::max(kernels.scratch_bytes(kQueries, head_dim), kernels.scratch_bytes(kQueries, columns)));
    }

    // Tiles of the packed keys and of the packed values of a head.
    std::int64_t key_tiles() const { return padded(length, kPackedRows) / kPackedRows; }
    std::int64_t value_tiles() const { return head_dim / kPackedRows; }

    static void pack_keys(void *context, std::uint32_t index, int thread) {
        const Work &w = *static_cast<const Work *>(context);
        auto *const encoded = reinterpret_cast<std::uint8_t *>(w.scratch + thread * w.thread_bytes);
        const std::size_t row_bytes = quantized_row_bytes(kType, w.head_dim);
        const float *const source = w.k.data + w.first * w.k.token_stride + index * w.k.head_stride;
        auto *const target = reinterpret_cast<std::uint8_t *>(w.keys_of(index));
        for (std::int64_t tile = 0; tile < w.key_tiles(); ++tile) {
            const std::int64_t begin = tile * kPackedRows, end = std::min(begin + kPackedRows, w.length);
            for (std::int64_t t = begin; t < end; ++t) {
                quantize_row(kType, source + t * w.k.token_stride, w.head_dim, encoded + (t - begin) * row_bytes);
            }
            // Packs a single tile: the scratch holds the encoded rows of one.
            pack_tiles(kType, encoded, row_bytes, end - begin, w.head_dim, 0, 1,
                       target + packed_bytes(kType, begin, w.head_dim));
        }
    }

    static void pack_values(void *context, std::uint32_t index, int thread) {
        const Work &w = *static_cast<const Work *>(context);
        float *const rows = reinterpret_cast<float *>(w.scratch + thread * w.thread_bytes);
        auto *const encoded = reinterpret_cast<std::uint8_t *>(rows) + aligned(kPackedRows * w.columns * sizeof(float));
        const std::int64_t head = index / w.value_tiles(), begin = index % w.value_tiles() * kPackedRows;
        const float *const source = w.v.data + w.first * w.v.token_stride + head * w.v.head_stride + begin;
        for (std::int64_t t = 0; t < w.length; ++t) {
            for (std::int64_t r = 0; r < kPackedRows; ++r) rows[r * w.columns + t] = source[t * w.v.token_stride + r];
        }
        const std::size_t row_bytes = quantized_row_bytes(kType, w.columns);
        for (std::int64_t r = 0; r < kPackedRows; ++r) {
            std::fill(rows + r * w.columns + w.length, rows + (r + 1) * w.columns, 0.0f);
            quantize_row(kType, rows + r * w.columns, w.columns, encoded + r * row_bytes);
        }
        pack_tiles(kType, encoded, row_bytes, kPackedRows, w.columns, 0, 1,
                   reinterpret_cast<std::uint8_t *>(w.values_of(head)) + packed_bytes(kType, begin, w.columns));
    }

    static void attend(void *context, std::uint32_t index, int thread) {
        const Work &w = *static_cast<const Work *>(context);
        const PackedKernels &kernels = *w.variant->packed;
        const std::int64_t tiles = (w.length + kQueries - 1) / kQueries;
        const std::int64_t head = index / tiles, begin = index % tiles * kQueries;
        const std::int64_t count = std::min(kQueries, w.length - begin), kv_head = head / (w.heads / w.kv_heads);
        char *memory = w.scratch + thread * w.thread_bytes;
        const auto take = [&](std::size_t bytes) {
            char *const taken = memory;
            memory += aligned(bytes);
            return taken;
        };
        float *const scores = reinterpret_cast<float *>(take(kQueries * w.columns * sizeof(float)));
        float *const sums = reinterpret_cast<float *>(take(kQueries * w.head_dim * sizeof(float)));
        const Activations queries = place_activations(take(activation_bytes(kQueries, w.head_dim)), count, w.head_dim);
        const Activations weights = place_activations(take(activation_bytes(kQueries, w.columns)), count, w.columns);

        const auto *const keys = reinterpret_cast<const std::uint8_t *>(w.keys_of(kv_head));
        const auto *const values = reinterpret_cast<const std::uint8_t *>(w.values_of(kv_head));
        const std::int64_t token = w.first + begin;
        kernels.quantize(w.q.data + token * w.q.token_stride + head * w.q.head_stride, w.q.token_stride, 0, count, queries);
        kernels.multiply({kType, keys, queries, scores, w.columns}, 0, w.length, memory);
        float totals[kQueries];
        for (std::int64_t i = 0; i < count; ++i) {
            totals[i] = w.variant->softmax->soften(scores + i * w.columns, w.length, w.scale, weights, i);
        }
        kernels.multiply({kType, values, weights, sums, w.head_dim}, 0, w.head_dim, memory);
        for (std::int64_t i = 0; i < count; ++i) {
            float *const target = w.out + ((token + i) * w.heads + head) * w.head_dim;
            const float share = 1.0f / totals[i];
            for (std::int64_t d = 0; d < w.head_dim; ++d) target[d] = sums[i * w.head_dim + d] * share;
        }
    }

    void run(int threads) {
        columns = padded(length, kPackedGroup);
        key_bytes = aligned(packed_bytes(kType, length, head_dim));
        value_bytes = aligned(packed_bytes(kType, head_dim, columns));
        thread_bytes = aligned(std::max(packing_bytes(), attending_bytes()));
        reserve(threads);
        run_tasks(std::uint32_t(kv_heads), threads, pack_keys, this);
        run_tasks(std::uint32_t(kv_heads * value_tiles()), threads, pack_values, this);
        run_tasks(std::uint32_t(heads * ((length + kQueries - 1) / kQueries)), threads, attend, this);
    }
};

}  // namespace

void attend_rounded(const HeadRows &q, const HeadRows &k, const HeadRows &v, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, const std::int32_t *seq_start, std::int64_t sequences, float scale, float *out,
                    int threads, const Variant &variant) {
    const HalfKernels *const half = variant.half;
    if (half && half->format == HalfFormat::bf16 && head_dim % half->columns == 0) {
        return attend_half(q, k, v, heads, kv_heads, head_dim, seq_start, sequences, scale, out, threads, variant);
    }
    if (variant.int8_attention && head_dim % 16 == 0 && head_dim <= 256) {
        return attend_int8(q, k, v, heads, kv_heads, head_dim, seq_start, sequences, scale, out, threads, variant);
    }
    attend_each(Work{{q, k, v, heads, kv_heads, head_dim, scale, out, &variant}}, seq_start, sequences, threads);
}

}  // namespace antiphon
