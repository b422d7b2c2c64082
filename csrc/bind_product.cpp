// Products with encoded weights for Python.

#include "product.h"

#include <stdexcept>
#include <string>

#include "bind.h"

namespace nb = nanobind;

namespace antiphon {
namespace {

void append(Matrix &matrix, int type, std::uintptr_t data, std::size_t row_bytes, std::int64_t rows,
            std::uintptr_t codebook) {
    if (!variants().front().find(type)) throw std::invalid_argument("no kernel for tensor type " + std::to_string(type));
    matrix.append(type, false, at<const std::uint8_t>(data), row_bytes, rows, at<const std::uint8_t>(codebook));
}

void multiply(const Matrix &matrix, std::uintptr_t x, std::int64_t x_stride, std::int64_t tokens, std::uintptr_t bias,
              int activation, bool gated, std::uintptr_t residual, std::int64_t residual_stride, std::uintptr_t out,
              std::int64_t out_stride, int threads, std::size_t variant) {
    run_linear({&matrix, at<const float>(x), x_stride, tokens, at<const float>(bias), Activation(activation), gated,
                at<const float>(residual), residual_stride, at<float>(out), out_stride, threads, &variant_at(variant)});
}

void take(const Matrix &matrix, std::uintptr_t ids, std::int64_t count, std::uintptr_t out, std::size_t variant) {
    take_rows(matrix, at<const std::int64_t>(ids), count, at<float>(out), variant_at(variant));
}

bool supports(int type) { return variants().front().find(type) != nullptr; }

}  // namespace

void bind_product(nb::module_ &module) {
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    nb::class_<Matrix>(module, "Matrix", "A matrix of rows encoded as GGUF types, whose memory must outlive it.")
        .def("__init__", [](Matrix *self, std::int64_t columns) { new (self) Matrix{columns}; }, "columns")
        .def("append", &append, "More rows: type, address, bytes of a row, rows, address of the codebook or 0.")
        .def("multiply", &multiply, Unlocked(), "out = activation(x · Wᵀ + bias) + residual, in fp32.")
        .def("take_rows", &take, Unlocked(), "out[count, columns] = the rows named by int64 ids, decoded.");
    module.def("supports", &supports, "Whether there are kernels for a GGUF type id.");
}

}  // namespace antiphon
