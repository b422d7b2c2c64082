// Norms, rotary embedding and other operations on rows for Python.

#include "rows/tasks.h"

#include "bind/bind.h"

namespace nb = nanobind;

namespace antiphon {
namespace {

void norm(bool centred, std::uintptr_t x, std::int64_t outer_stride, std::int64_t inner_stride, std::uintptr_t residual,
          std::int64_t residual_outer_stride, std::int64_t residual_inner_stride, std::int64_t rows, std::int64_t inner,
          std::int64_t width, std::uintptr_t weight, std::uintptr_t bias, double eps, std::uintptr_t y,
          std::uintptr_t total, int threads, std::size_t variant) {
    const Norm argument{{at<const float>(x), inner, outer_stride, inner_stride},
                        {at<const float>(residual), inner, residual_outer_stride, residual_inner_stride},
                        width, at<const float>(weight), at<const float>(bias), float(eps), at<float>(y), at<float>(total)};
    run_norm(centred, argument, rows, threads, variant_at(variant));
}

void rotary(std::uintptr_t q, std::int64_t q_token_stride, std::int64_t q_head_stride, std::int64_t heads,
            std::uintptr_t k, std::int64_t k_token_stride, std::int64_t k_head_stride, std::int64_t kv_heads,
            std::int64_t tokens, std::int64_t head_dim, std::uintptr_t positions, std::uintptr_t table,
            std::int64_t table_rows, std::int64_t rotated, std::uintptr_t q_out, std::uintptr_t k_out, int threads,
            std::size_t variant) {
    const Rotation rotation{{{at<const float>(q), q_token_stride, q_head_stride, heads, at<float>(q_out)},
                             {at<const float>(k), k_token_stride, k_head_stride, kv_heads, at<float>(k_out)}},
                            head_dim, rotated, at<const std::int32_t>(positions), at<const float>(table)};
    check_positions(rotation.positions, tokens, table_rows);
    run_rotary(rotation, tokens, threads, variant_at(variant));
}

void segment_means(std::uintptr_t x, std::int64_t x_stride, std::int64_t width, std::uintptr_t seq_start,
                   std::int64_t segments, std::uintptr_t out, int threads, std::size_t variant) {
    const SegmentMeans means{at<const float>(x), x_stride, width, at<const std::int32_t>(seq_start), at<float>(out)};
    run_segment_means(means, segments, threads, variant_at(variant));
}

void unit_rows(std::uintptr_t x, std::int64_t x_stride, std::int64_t rows, std::int64_t width, std::uintptr_t out,
               int threads, std::size_t variant) {
    run_unit_rows({at<const float>(x), x_stride, width, at<float>(out)}, rows, threads, variant_at(variant));
}

}  // namespace

void bind_rows(nb::module_ &module) {
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    module.def("norm", &norm, Unlocked(), "Compute the root-mean-square norm of rows of floats, or the layer norm if `centred`.");
    module.def("rotary", &rotary, Unlocked(), "Rotate q and k [tokens, heads, head_dim] by int32 positions.");
    module.def("segment_means", &segment_means, Unlocked(), "Compute the mean of each segment's rows; segments begin at int32 `starts`.");
    module.def("unit_rows", &unit_rows, Unlocked(), "Scale rows to length 1.");
}

}  // namespace antiphon
