// The Python face of the kernels. Tensors come as addresses; the Python side has checked types, shapes and contiguity.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels.h"
#include "thread_pool.h"

namespace nb = nanobind;

namespace {

using antiphon::Product;
using antiphon::TypeKernels;

constexpr std::size_t kAlignment = 64;

template <class T> T *at(std::uintptr_t address) { return reinterpret_cast<T *>(address); }

const TypeKernels &find_kernels(int type, std::size_t variant) {
    const auto &variants = antiphon::variants();
    if (variant >= variants.size()) throw std::invalid_argument("no such variant: " + std::to_string(variant));
    const TypeKernels *kernels = variants[variant].find(type);
    if (!kernels) throw std::invalid_argument("no kernel for tensor type " + std::to_string(type));
    return *kernels;
}

struct AlignedDelete {
    void operator()(char *memory) const { ::operator delete[](memory, std::align_val_t(kAlignment)); }
};
using AlignedMemory = std::unique_ptr<char[], AlignedDelete>;

AlignedMemory allocate(std::size_t bytes) {
    return AlignedMemory(static_cast<char *>(::operator new[](bytes, std::align_val_t(kAlignment))));
}

struct Share {
    const Product *product;
    const TypeKernels *kernels;
    std::int64_t rows, rows_per_task;
    char *scratch;
    std::size_t scratch_bytes;

    static void run(void *context, std::uint32_t index, int thread) {
        const Share &share = *static_cast<const Share *>(context);
        const std::int64_t begin = index * share.rows_per_task;
        const std::int64_t end = std::min(begin + share.rows_per_task, share.rows);
        share.kernels->multiply(*share.product, begin, end, share.scratch + thread * share.scratch_bytes);
    }
};

void linear(int type, std::uintptr_t weight, std::size_t row_bytes, std::int64_t rows, std::int64_t columns,
            std::uintptr_t codebook, std::uintptr_t x, std::int64_t tokens, std::uintptr_t y, std::int64_t y_stride,
            int threads, std::size_t variant) {
    const TypeKernels &kernels = find_kernels(type, variant);
    if (rows <= 0 || tokens <= 0) return;
    Product product{at<const std::uint8_t>(weight), row_bytes, columns, at<const std::uint8_t>(codebook),
                    at<const float>(x), columns, tokens, at<float>(y), y_stride};

    std::vector<float> padded;
    if (columns % antiphon::kPadding) {
        product.x_stride = (columns / antiphon::kPadding + 1) * antiphon::kPadding;
        padded.resize(tokens * product.x_stride);
        for (std::int64_t t = 0; t < tokens; ++t) {
            std::memcpy(padded.data() + t * product.x_stride, product.x + t * columns, columns * sizeof(float));
        }
        product.x = padded.data();
    }

    const std::int64_t tiles = (rows + antiphon::kTileRows - 1) / antiphon::kTileRows;
    threads = int(std::clamp<std::int64_t>(threads, 1, tiles));
    // Some eight tasks a thread: few enough to claim cheaply, enough that all threads end together.
    const std::int64_t tiles_per_task = threads == 1 ? tiles : std::max<std::int64_t>(1, tiles / (8 * threads));
    const std::size_t scratch_bytes =
        tokens > 1 ? (antiphon::scratch_bytes(tokens) + kAlignment - 1) / kAlignment * kAlignment : 0;
    const AlignedMemory scratch = allocate(std::max<std::size_t>(scratch_bytes * threads, 1));

    Share share{&product, &kernels, rows, tiles_per_task * antiphon::kTileRows, scratch.get(), scratch_bytes};
    const std::int64_t tasks = (tiles + tiles_per_task - 1) / tiles_per_task;
    antiphon::run_tasks(std::uint32_t(tasks), threads, Share::run, &share);
}

void dequantize_rows(int type, std::uintptr_t weight, std::size_t row_bytes, std::int64_t columns,
                     std::uintptr_t codebook, std::uintptr_t ids, std::int64_t count, std::uintptr_t out,
                     std::size_t variant) {
    const TypeKernels &kernels = find_kernels(type, variant);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t row = at<const std::int64_t>(ids)[i];
        kernels.decode_row(at<const std::uint8_t>(weight) + row * row_bytes, columns, at<const std::uint8_t>(codebook),
                           at<float>(out) + i * columns);
    }
}

bool supports(int type) { return antiphon::variants().front().find(type) != nullptr; }

std::vector<std::string> variants() {
    std::vector<std::string> names;
    for (const auto &variant : antiphon::variants()) names.emplace_back(variant.name);
    return names;
}

}  // namespace

NB_MODULE(_native, module) {
    using namespace nb::literals;
    module.doc() = "Antiphon's native kernels";
    module.def("linear", &linear, "type"_a, "weight"_a, "row_bytes"_a, "rows"_a, "columns"_a, "codebook"_a, "x"_a,
               "tokens"_a, "y"_a, "y_stride"_a, "threads"_a, "variant"_a = 0, nb::call_guard<nb::gil_scoped_release>(),
               "y[tokens, rows] = x[tokens, columns] · Wᵀ in fp32; W's rows are encoded as GGUF type `type`.");
    module.def("dequantize_rows", &dequantize_rows, "type"_a, "weight"_a, "row_bytes"_a, "columns"_a, "codebook"_a,
               "ids"_a, "count"_a, "out"_a, "variant"_a = 0, nb::call_guard<nb::gil_scoped_release>(),
               "out[count, columns] = the rows of W named by int64 ids, decoded to fp32.");
    module.def("supports", &supports, "type"_a, "Whether there are kernels for a GGUF type id.");
    module.def("variants", &variants, "The instruction sets that this processor can run kernels of, the best first.");
}
