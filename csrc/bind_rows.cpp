// Norms and rotary embedding for Python, shared out over threads by rows.

#include <algorithm>
#include <stdexcept>
#include <string>

#include "bind.h"
#include "thread_pool.h"

namespace nb = nanobind;

namespace antiphon {
namespace {

constexpr std::int64_t kTaskElements = 16384;  // fewer are not worth another thread's waking

template <class Argument> struct RowTasks {
    void (*kernel)(const Argument &, std::int64_t begin, std::int64_t end);
    const Argument *argument;
    std::int64_t rows, rows_per_task;

    static void run(void *context, std::uint32_t index, int) {
        const RowTasks &tasks = *static_cast<const RowTasks *>(context);
        const std::int64_t begin = index * tasks.rows_per_task;
        tasks.kernel(*tasks.argument, begin, std::min(begin + tasks.rows_per_task, tasks.rows));
    }
};

template <class Argument>
void run_rows(void (*kernel)(const Argument &, std::int64_t, std::int64_t), const Argument &argument, std::int64_t rows,
              std::int64_t width, int threads) {
    const std::int64_t rows_per_task = std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, width));
    RowTasks<Argument> tasks{kernel, &argument, rows, rows_per_task};
    run_tasks(std::uint32_t((rows + rows_per_task - 1) / rows_per_task), threads, RowTasks<Argument>::run, &tasks);
}

void norm(bool centred, std::uintptr_t x, std::int64_t outer_stride, std::int64_t inner_stride, std::uintptr_t residual,
          std::int64_t residual_outer_stride, std::int64_t residual_inner_stride, std::int64_t rows, std::int64_t inner,
          std::int64_t width, std::uintptr_t weight, std::uintptr_t bias, double eps, std::uintptr_t y,
          std::uintptr_t total, int threads, std::size_t variant) {
    const Norm argument{{at<const float>(x), inner, outer_stride, inner_stride},
                        {at<const float>(residual), inner, residual_outer_stride, residual_inner_stride},
                        width, at<const float>(weight), at<const float>(bias), float(eps), at<float>(y), at<float>(total)};
    const RowKernels &kernels = variant_at(variant).rows;
    run_rows(centred ? kernels.layer_norm : kernels.rms_norm, argument, rows, width, threads);
}

void rotary(std::uintptr_t q, std::int64_t q_token_stride, std::int64_t q_head_stride, std::int64_t heads,
            std::uintptr_t k, std::int64_t k_token_stride, std::int64_t k_head_stride, std::int64_t kv_heads,
            std::int64_t tokens, std::int64_t head_dim, std::uintptr_t positions, std::uintptr_t table,
            std::int64_t table_rows, std::int64_t rotated, std::uintptr_t q_out, std::uintptr_t k_out, int threads,
            std::size_t variant) {
    const Rotation rotation{{{at<const float>(q), q_token_stride, q_head_stride, heads, at<float>(q_out)},
                             {at<const float>(k), k_token_stride, k_head_stride, kv_heads, at<float>(k_out)}},
                            head_dim, rotated, at<const std::int32_t>(positions), at<const float>(table)};
    for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t position = rotation.positions[t];
        if (position < 0 || position >= table_rows) {
            throw std::out_of_range("position " + std::to_string(position) + " does not lie within the rotary table's " +
                                    std::to_string(table_rows) + " rows");
        }
    }
    run_rows(variant_at(variant).rows.rotate, rotation, tokens, (heads + kv_heads) * head_dim, threads);
}

}  // namespace

void bind_rows(nb::module_ &module) {
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    module.def("norm", &norm, Unlocked(), "Root-mean-square norm, or layer norm where `centred`, of rows of floats.");
    module.def("rotary", &rotary, Unlocked(), "q and k [tokens, heads, head_dim] turned by int32 positions.");
}

}  // namespace antiphon
