#include "linear/product.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/thread_pool.h"
#include "base/workspace.h"
#include "linear/kernels.h"
#include "packed/format.h"

namespace antiphon {
namespace {

constexpr std::int64_t kGateScratch = std::int64_t(1) << 18;  // floats of gates and values that a task may hold
constexpr std::int64_t kQuantizeTask = std::int64_t(1) << 15;  // elements of x per task

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

const TypeKernels &find_kernels(int type, const Variant &variant) {
    const TypeKernels *kernels = variant.find(type);
    if (!kernels) throw std::invalid_argument("no kernel for tensor type " + std::to_string(type));
    return *kernels;
}

struct Quantization {
    const LinearCall *call;
    const Activations *x;
    std::int64_t tokens_per_task;

    static void run(void *context, std::uint32_t index, int) {
        const Quantization &work = *static_cast<const Quantization *>(context);
        const std::int64_t begin = index * work.tokens_per_task;
        const std::int64_t end = std::min(begin + work.tokens_per_task, work.x->tokens);
        work.call->variant->packed->quantize(work.call->x, work.call->x_stride, begin, end, *work.x);
    }
};

void quantize(const LinearCall &call, const Activations &x) {
    const std::int64_t per_task = std::max<std::int64_t>(1, kQuantizeTask / x.columns);
    Quantization work{&call, &x, per_task};
    run_tasks(std::uint32_t((x.tokens + per_task - 1) / per_task), call.threads, Quantization::run, &work);
}

struct Work {
    const LinearCall *call;
    Product product;  // product with encoded parts, without their weight
    Activations x;    // quantised x for packed parts
    Epilogue epilogue;
    bool plain;  // whether there is no epilogue
    std::int64_t columns_per_task;
    char *scratch;
    std::size_t product_bytes, thread_bytes;

    // Adds a delta to its tokens; other tokens keep every bit of their product.
    void add_delta(const LinearDelta &delta, std::int64_t begin, std::int64_t end, float *y, std::int64_t stride) const {
        const std::int64_t low = std::max(begin, delta.first), high = std::min(end, delta.first + delta.width);
        if (low >= high) return;
        const WeightedRows sum{delta.weights, delta.weight_stride, delta.rows, delta.width, delta.rank, delta.tokens,
                               delta.num_tokens, y - begin + delta.first, stride};
        call->variant->rows->add_weighted(sum, low - delta.first, high - delta.first);
    }

    // Computes rows [begin, end) of all parts, counted end to end, into y[token * stride + row - begin].
    void multiply(std::int64_t begin, std::int64_t end, float *y, std::int64_t stride, char *thread_scratch) const {
        for (const MatrixPart &part : call->matrix->parts) {
            const std::int64_t low = std::max(begin, part.first), high = std::min(end, part.first + part.rows);
            if (low >= high) continue;
            float *const target = y - begin + part.first;
            if (part.packed) {
                const PackedProduct p{part.type, part.data, x, target, stride};
                call->variant->packed->multiply(p, low - part.first, high - part.first, thread_scratch);
                continue;
            }
            Product p = product;
            p.weight = part.data;
            p.row_bytes = part.row_bytes;
            p.codebook = part.codebook;
            p.y = target;
            p.y_stride = stride;
            find_kernels(part.type, *call->variant).multiply(p, low - part.first, high - part.first, thread_scratch);
        }
        for (std::size_t d = 0; d < call->num_deltas; ++d) add_delta(call->deltas[d], begin, end, y, stride);
    }

    static void run(void *context, std::uint32_t index, int thread) {
        const Work &work = *static_cast<const Work *>(context);
        const Epilogue &e = work.epilogue;
        const auto finish = work.call->variant->rows->finish;
        const std::int64_t begin = index * work.columns_per_task;
        const std::int64_t end = std::min(begin + work.columns_per_task, e.columns);
        char *const own = work.scratch + thread * work.thread_bytes;
        if (!e.gated) {
            work.multiply(begin, end, e.out + begin, e.out_stride, own);
            if (!work.plain) finish(e, work.call->tokens, begin, end, e.out + begin, e.out + begin, e.out_stride);
            return;
        }
        const std::int64_t stride = 2 * work.columns_per_task;
        float *const gate = reinterpret_cast<float *>(own + work.product_bytes), *const value = gate + work.columns_per_task;
        work.multiply(begin, end, gate, stride, own);
        work.multiply(e.columns + begin, e.columns + end, value, stride, own);
        finish(e, work.call->tokens, begin, end, gate, value, stride);
    }
};

}  // namespace

void run_linear(const LinearCall &call) {
    const Matrix &matrix = *call.matrix;
    const std::int64_t columns = matrix.columns, tokens = call.tokens;
    if (matrix.rows <= 0 || tokens <= 0) return;
    const bool packed = matrix.any_packed(), encoded = matrix.any_encoded();

    const Epilogue epilogue{call.activation, call.gated, call.bias, call.residual, call.residual_stride,
                            call.out, call.out_stride, call.gated ? matrix.rows / 2 : matrix.rows};
    const std::int64_t tiles = (epilogue.columns + kTileRows - 1) / kTileRows;
    const int threads = int(std::clamp<std::int64_t>(call.threads, 1, tiles));
    // About eight tasks per thread: few enough to claim cheaply, enough that the threads finish together.
    std::int64_t tiles_per_task = threads == 1 ? tiles : std::max<std::int64_t>(1, tiles / (8 * threads));
    if (call.gated) {
        tiles_per_task = std::clamp<std::int64_t>(kGateScratch / (2 * kTileRows * tokens), 1, tiles_per_task);
    }
    const std::int64_t columns_per_task = tiles_per_task * kTileRows;
    const std::size_t encoded_bytes = encoded && tokens > 1 ? scratch_bytes(tokens) : 0;
    const std::size_t packed_scratch = packed ? call.variant->packed->scratch_bytes(tokens, columns) : 0;
    const std::size_t product_bytes = aligned(std::max(encoded_bytes, packed_scratch));
    const std::size_t gate_bytes = call.gated ? aligned(2 * columns_per_task * tokens * sizeof(float)) : 0;
    const std::size_t thread_bytes = product_bytes + gate_bytes;
    const std::int64_t padded_columns = (columns + kPadding - 1) / kPadding * kPadding;
    const std::size_t padded_bytes = encoded && columns % kPadding ? aligned(tokens * padded_columns * sizeof(float)) : 0;
    const std::size_t quantized_bytes = packed ? activation_bytes(tokens, columns) : 0;
    char *const memory = workspace(padded_bytes + quantized_bytes + thread_bytes * threads);

    const bool plain = !call.bias && call.activation == Activation::none && !call.gated && !call.residual;
    Work work{&call,
              {nullptr, 0, columns, nullptr, call.x, call.x_stride, tokens, nullptr, 0},
              {},
              epilogue,
              plain,
              columns_per_task,
              memory + padded_bytes + quantized_bytes,
              product_bytes,
              thread_bytes};
    if (padded_bytes) {
        float *const padded = reinterpret_cast<float *>(memory);
        for (std::int64_t t = 0; t < tokens; ++t) {
            float *const row = padded + t * padded_columns;
            std::memcpy(row, call.x + t * call.x_stride, columns * sizeof(float));
            std::memset(row + columns, 0, (padded_columns - columns) * sizeof(float));
        }
        work.product.x = padded;
        work.product.x_stride = padded_columns;
    }
    if (packed) {
        work.x = place_activations(memory + padded_bytes, tokens, columns);
        quantize(call, work.x);
    }
    run_tasks(std::uint32_t((tiles + tiles_per_task - 1) / tiles_per_task), threads, Work::run, &work);
}

void take_rows(const Matrix &matrix, const std::int64_t *ids, std::int64_t count, float *out, const Variant &variant) {
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t row = ids[i];
        if (row < 0 || row >= matrix.rows) {
            throw std::invalid_argument("id " + std::to_string(row) + " does not lie within the weight's " +
                                        std::to_string(matrix.rows) + " rows");
        }
        const MatrixPart &part = *std::find_if(matrix.parts.begin(), matrix.parts.end(),
                                               [row](const MatrixPart &p) { return row < p.first + p.rows; });
        float *const target = out + i * matrix.columns;
        if (part.packed) {
            unpack_row(part.type, part.data, matrix.columns, row - part.first, target);
        } else {
            find_kernels(part.type, variant)
                .decode_row(part.data + (row - part.first) * part.row_bytes, matrix.columns, part.codebook, target);
        }
    }
}

}  // namespace antiphon
