// Operations on independent rows, split over threads, for Python and recorded programs.

#pragma once

#include <algorithm>
#include <cstdint>

#include "base/variant.h"
#include "rows/kernels.h"

namespace antiphon {

constexpr std::int64_t kTaskElements = 16384;  // minimum of a task: waking another thread for fewer elements takes longer

inline std::int64_t rows_per_task(std::int64_t width) {
    return std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, width));
}

void run_norm(bool centred, const Norm &norm, std::int64_t rows, int threads, const Variant &variant);

// Throws `std::out_of_range` for a position outside the table.
void check_positions(const std::int32_t *positions, std::int64_t tokens, std::int64_t table_rows);
void run_rotary(const Rotation &rotation, std::int64_t tokens, int threads, const Variant &variant);

void run_add(const RowSum &sum, std::int64_t rows, int threads, const Variant &variant);
void run_segment_means(const SegmentMeans &means, std::int64_t segments, int threads, const Variant &variant);
void run_unit_rows(const UnitRows &rows, std::int64_t count, int threads, const Variant &variant);

}  // namespace antiphon
