// Products with encoded weights for Python: the rows shared out over threads, each task finishing what it computed.

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "bind.h"
#include "thread_pool.h"

namespace nb = nanobind;

namespace antiphon {
namespace {

constexpr std::int64_t kGateScratch = std::int64_t(1) << 18;  // floats that a task may hold before its gate

const TypeKernels &find_kernels(int type, std::size_t variant) {
    const TypeKernels *kernels = variant_at(variant).find(type);
    if (!kernels) throw std::invalid_argument("no kernel for tensor type " + std::to_string(type));
    return *kernels;
}

// Consecutive rows of one encoding.
struct Part {
    int type;
    const std::uint8_t *data;
    std::size_t row_bytes;
    std::int64_t first, rows;
    const std::uint8_t *codebook;
};

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

struct Work {
    const std::vector<Part> *parts;
    std::size_t variant;
    const RowKernels *kernels;
    Product product;  // without its weight
    Epilogue epilogue;
    bool plain;  // no epilogue
    std::int64_t columns_per_task;
    char *scratch;
    std::size_t product_bytes, thread_bytes;

    // Rows [begin, end) of all parts end to end, to y[token * stride + row - begin].
    void multiply(std::int64_t begin, std::int64_t end, float *y, std::int64_t stride, char *thread_scratch) const {
        for (const Part &part : *parts) {
            const std::int64_t low = std::max(begin, part.first), high = std::min(end, part.first + part.rows);
            if (low >= high) continue;
            Product p = product;
            p.weight = part.data;
            p.row_bytes = part.row_bytes;
            p.codebook = part.codebook;
            p.y = y - begin + part.first;
            p.y_stride = stride;
            find_kernels(part.type, variant).multiply(p, low - part.first, high - part.first, thread_scratch);
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
                work.kernels->finish(e, work.product.tokens, begin, end, e.out + begin, e.out + begin, e.out_stride);
            }
            return;
        }
        const std::int64_t stride = 2 * work.columns_per_task;
        float *const gate = reinterpret_cast<float *>(own + work.product_bytes), *const value = gate + work.columns_per_task;
        work.multiply(begin, end, gate, stride, own);
        work.multiply(e.columns + begin, e.columns + end, value, stride, own);
        work.kernels->finish(e, work.product.tokens, begin, end, gate, value, stride);
    }
};

// A matrix of encoded rows, whose memory must outlive it.
class Matrix {
public:
    explicit Matrix(std::int64_t columns) : columns_(columns) {}

    void append(int type, std::uintptr_t data, std::size_t row_bytes, std::int64_t rows, std::uintptr_t codebook) {
        find_kernels(type, 0);
        parts_.push_back({type, at<const std::uint8_t>(data), row_bytes, rows_, rows, at<const std::uint8_t>(codebook)});
        rows_ += rows;
    }

    void multiply(std::uintptr_t x, std::int64_t x_stride, std::int64_t tokens, std::uintptr_t bias, int activation,
                  bool gated, std::uintptr_t residual, std::int64_t residual_stride, std::uintptr_t out,
                  std::int64_t out_stride, int threads, std::size_t variant) const {
        if (rows_ <= 0 || tokens <= 0) return;
        Product product{nullptr, 0, columns_, nullptr, at<const float>(x), x_stride, tokens, nullptr, 0};
        std::vector<float> padded;
        if (columns_ % kPadding) {
            product.x_stride = (columns_ / kPadding + 1) * kPadding;
            padded.resize(tokens * product.x_stride);
            for (std::int64_t t = 0; t < tokens; ++t) {
                std::memcpy(padded.data() + t * product.x_stride, product.x + t * x_stride, columns_ * sizeof(float));
            }
            product.x = padded.data();
        }

        const Epilogue epilogue{Activation(activation), gated, at<const float>(bias), at<const float>(residual),
                                residual_stride, at<float>(out), out_stride, gated ? rows_ / 2 : rows_};
        const std::int64_t tiles = (epilogue.columns + kTileRows - 1) / kTileRows;
        threads = int(std::clamp<std::int64_t>(threads, 1, tiles));
        // Some eight tasks a thread: few enough to claim cheaply, enough that all threads end together.
        std::int64_t tiles_per_task = threads == 1 ? tiles : std::max<std::int64_t>(1, tiles / (8 * threads));
        if (gated) {
            tiles_per_task = std::clamp<std::int64_t>(kGateScratch / (2 * kTileRows * tokens), 1, tiles_per_task);
        }
        const std::int64_t columns_per_task = tiles_per_task * kTileRows;
        const std::size_t product_bytes = tokens > 1 ? aligned(scratch_bytes(tokens)) : 0;
        const std::size_t gate_bytes = gated ? aligned(2 * columns_per_task * tokens * sizeof(float)) : 0;
        const std::size_t thread_bytes = product_bytes + gate_bytes;
        const bool plain = !bias && !activation && !gated && !residual;
        Work work{&parts_, variant, &variant_at(variant).rows, product, epilogue, plain, columns_per_task,
                  workspace(thread_bytes * threads), product_bytes, thread_bytes};
        run_tasks(std::uint32_t((tiles + tiles_per_task - 1) / tiles_per_task), threads, Work::run, &work);
    }

    void take_rows(std::uintptr_t ids, std::int64_t count, std::uintptr_t out, std::size_t variant) const {
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t row = at<const std::int64_t>(ids)[i];
            if (row < 0 || row >= rows_) {
                throw std::invalid_argument("id " + std::to_string(row) + " does not lie within the weight's " +
                                            std::to_string(rows_) + " rows");
            }
            const Part &part = *std::find_if(parts_.begin(), parts_.end(),
                                             [row](const Part &p) { return row < p.first + p.rows; });
            find_kernels(part.type, variant)
                .decode_row(part.data + (row - part.first) * part.row_bytes, columns_, part.codebook,
                            at<float>(out) + i * columns_);
        }
    }

private:
    std::int64_t columns_, rows_ = 0;
    std::vector<Part> parts_;
};

bool supports(int type) { return variants().front().find(type) != nullptr; }

}  // namespace

void bind_product(nb::module_ &module) {
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    nb::class_<Matrix>(module, "Matrix", "A matrix of rows encoded as GGUF types, whose memory must outlive it.")
        .def(nb::init<std::int64_t>(), "columns")
        .def("append", &Matrix::append, "More rows: type, address, bytes of a row, rows, address of the codebook or 0.")
        .def("multiply", &Matrix::multiply, Unlocked(), "out = activation(x · Wᵀ + bias) + residual, in fp32.")
        .def("take_rows", &Matrix::take_rows, Unlocked(), "out[count, columns] = the rows named by int64 ids, decoded.");
    module.def("supports", &supports, "Whether there are kernels for a GGUF type id.");
}

}  // namespace antiphon
