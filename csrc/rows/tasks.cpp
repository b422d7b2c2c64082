#include "rows/tasks.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/thread_pool.h"

namespace antiphon {
namespace {

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
    RowTasks<Argument> tasks{kernel, &argument, rows, rows_per_task(width)};
    run_tasks(std::uint32_t((rows + tasks.rows_per_task - 1) / tasks.rows_per_task), threads, RowTasks<Argument>::run, &tasks);
}

}  // namespace

void run_norm(bool centred, const Norm &norm, std::int64_t rows, int threads, const Variant &variant) {
    run_rows(centred ? variant.rows->layer_norm : variant.rows->rms_norm, norm, rows, norm.width, threads);
}

void check_positions(const std::int32_t *positions, std::int64_t tokens, std::int64_t table_rows) {
    for (std::int64_t t = 0; t < tokens; ++t) {
        if (positions[t] < 0 || positions[t] >= table_rows) {
            throw std::out_of_range("position " + std::to_string(positions[t]) +
                                    " does not lie within the rotary table's " + std::to_string(table_rows) + " rows");
        }
    }
}

void run_rotary(const Rotation &rotation, std::int64_t tokens, int threads, const Variant &variant) {
    const std::int64_t width = (rotation.sides[0].heads + rotation.sides[1].heads) * rotation.head_dim;
    run_rows(variant.rows->rotate, rotation, tokens, width, threads);
}

void run_add(const RowSum &sum, std::int64_t rows, int threads, const Variant &variant) {
    run_rows(variant.rows->add, sum, rows, sum.width, threads);
}

void run_segment_means(const SegmentMeans &means, std::int64_t segments, int threads, const Variant &variant) {
    const std::int64_t tokens = means.seq_start[segments];
    run_rows(variant.rows->segment_means, means, segments, means.width * tokens / std::max<std::int64_t>(1, segments), threads);
}

void run_unit_rows(const UnitRows &rows, std::int64_t count, int threads, const Variant &variant) {
    run_rows(variant.rows->unit_rows, rows, count, rows.width, threads);
}

}  // namespace antiphon
