// Row-scaled products for Python.

#include <stdexcept>

#include "bind/bind.h"
#include "linear/row_scaled.h"
#include "linear/row_scaled_tasks.h"

namespace nb = nanobind;

namespace antiphon {
namespace {

bool has_row_scaled(std::size_t variant) { return variant_at(variant).scaled != nullptr; }

const Variant &with_scaled(std::size_t index, std::int64_t columns) {
    const Variant &variant = variant_at(index);
    if (!variant.scaled) throw std::invalid_argument("this instruction set has no row-scaled products");
    if (columns % kScaledColumns) throw std::invalid_argument("columns are no multiple of 64");
    return variant;
}

void multiply(std::uintptr_t panels, std::uintptr_t row_scales, std::int64_t rows, std::int64_t columns, std::uintptr_t x,
              std::int64_t x_stride, std::int64_t tokens, std::uintptr_t bias, int activation, std::uintptr_t residual,
              std::int64_t residual_stride, std::uintptr_t out, int threads, std::size_t variant) {
    run_row_scaled({at<const std::int8_t>(panels), at<const float>(row_scales), rows, columns, at<const float>(x), x_stride,
                    tokens, at<const float>(bias), at<const float>(residual), residual_stride, Activation(activation),
                    at<float>(out)},
                   threads, with_scaled(variant, columns));
}

void pack(std::uintptr_t weight, std::int64_t rows, std::int64_t columns, std::uintptr_t panels, std::uintptr_t row_scales,
          std::size_t variant) {
    make_panels(at<const float>(weight), rows, columns, at<std::int8_t>(panels), at<float>(row_scales),
                with_scaled(variant, columns));
}

}  // namespace

void bind_row_scaled(nb::module_ &module) {
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    module.def("has_row_scaled", &has_row_scaled, "Return whether a variant has products of int8 rows with one scale each.");
    module.def("multiply_row_scaled", &multiply, Unlocked(), "Quantise tokens and multiply them with int8 rows.");
    module.def("pack_row_scaled", &pack, Unlocked(), "Pack rows of floats as int8 panels with their scales.");
}

}  // namespace antiphon
