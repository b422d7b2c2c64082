// Products with encoded weights: the rows shared out over threads, each task finishing what it computed.

#include "product.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "thread_pool.h"
#include "workspace.h"

namespace antiphon {
namespace {

constexpr std::int64_t kGateScratch = std::int64_t(1) << 18;  // floats that a task may hold before its gate

const TypeKernels &find_kernels(int type, const Variant &variant) {
    const TypeKernels *kernels = variant.find(type);
    if (!kernels) throw std::invalid_argument("no kernel for tensor type " + std::to_string(type));
    return *kernels;
}

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

struct Work {
    const Matrix *matrix;
    const Variant *variant;
    Product product;  // without its weight
    Epilogue epilogue;
    bool plain;  // no epilogue
    std::int64_t columns_per_task;
    char *scratch;
    std::size_t product_bytes, thread_bytes;

    // Rows [begin, end) of all parts end to end, to y[token * stride + row - begin].
    void multiply(std::int64_t begin, std::int64_t end, float *y, std::int64_t stride, char *thread_scratch) const {
        for (const MatrixPart &part : matrix->parts) {
            const std::int64_t low = std::max(begin, part.first), high = std::min(end, part.first + part.rows);
            if (low >= high) continue;
            Product p = product;
            p.weight = part.data;
            p.row_bytes = part.row_bytes;
            p.codebook = part.codebook;
            p.y = y - begin + part.first;
            p.y_stride = stride;
            find_kernels(part.type, *variant).multiply(p, low - part.first, high - part.first, thread_scratch);
        }
    }

    static void run(void *context, std::uint32_t index, int thread) {
        const Work &work = *static_cast<const Work *>(context);
        const Epilogue &e = work.epilogue;
        const std::int64_t begin = index * work.columns_per_task;
        const std::int64_t end = std::min(begin + work.columns_per_task, e.columns);
        char *const own = work.scratch + thread * work.thread_bytes;
        if (!e.gated) {
            work.multiply(begin, end, e.out + begin, e.out_stride, own);
            if (!work.plain) {
                work.variant->rows.finish(e, work.product.tokens, begin, end, e.out + begin, e.out + begin, e.out_stride);
            }
            return;
        }
        const std::int64_t stride = 2 * work.columns_per_task;
        float *const gate = reinterpret_cast<float *>(own + work.product_bytes), *const value = gate + work.columns_per_task;
        work.multiply(begin, end, gate, stride, own);
        work.multiply(e.columns + begin, e.columns + end, value, stride, own);
        work.variant->rows.finish(e, work.product.tokens, begin, end, gate, value, stride);
    }
};

}  // namespace

void run_linear(const LinearCall &call) {
    const Matrix &matrix = *call.matrix;
    const std::int64_t tokens = call.tokens, columns = matrix.columns;
    if (matrix.rows <= 0 || tokens <= 0) return;
    Product product{nullptr, 0, columns, nullptr, call.x, call.x_stride, tokens, nullptr, 0};
    std::size_t padded_bytes = 0;
    if (columns % kPadding) {
        product.x_stride = (columns / kPadding + 1) * kPadding;
        padded_bytes = aligned(tokens * product.x_stride * sizeof(float));
    }
    const Epilogue epilogue{call.activation, call.gated, call.bias, call.residual, call.residual_stride,
                            call.out, call.out_stride, call.gated ? matrix.rows / 2 : matrix.rows};
    const std::int64_t tiles = (epilogue.columns + kTileRows - 1) / kTileRows;
    const int threads = int(std::clamp<std::int64_t>(call.threads, 1, tiles));
    // Some eight tasks a thread: few enough to claim cheaply, enough that all threads end together.
    std::int64_t tiles_per_task = threads == 1 ? tiles : std::max<std::int64_t>(1, tiles / (8 * threads));
    if (call.gated) {
        tiles_per_task = std::clamp<std::int64_t>(kGateScratch / (2 * kTileRows * tokens), 1, tiles_per_task);
    }
    const std::int64_t columns_per_task = tiles_per_task * kTileRows;
    const std::size_t product_bytes = tokens > 1 ? aligned(scratch_bytes(tokens)) : 0;
    const std::size_t gate_bytes = call.gated ? aligned(2 * columns_per_task * tokens * sizeof(float)) : 0;
    const std::size_t thread_bytes = product_bytes + gate_bytes;
    char *const scratch = workspace(padded_bytes + thread_bytes * threads);
    if (padded_bytes) {
        float *const padded = reinterpret_cast<float *>(scratch);
        for (std::int64_t t = 0; t < tokens; ++t) {
            std::memcpy(padded + t * product.x_stride, call.x + t * call.x_stride, columns * sizeof(float));
            std::memset(padded + t * product.x_stride + columns, 0, (product.x_stride - columns) * sizeof(float));
        }
        product.x = padded;
    }
    const bool plain = !call.bias && call.activation == Activation::none && !call.gated && !call.residual;
    Work work{&matrix, call.variant, product, epilogue, plain, columns_per_task, scratch + padded_bytes, product_bytes,
              thread_bytes};
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
        find_kernels(part.type, variant)
            .decode_row(part.data + (row - part.first) * part.row_bytes, matrix.columns, part.codebook,
                        out + i * matrix.columns);
    }
}

}  // namespace antiphon
