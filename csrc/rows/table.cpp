// Table of the row kernels. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "rows/kernels.h"

namespace antiphon {
namespace ANTIPHON_VARIANT {

void rms_norm(const Norm &, std::int64_t, std::int64_t);
void layer_norm(const Norm &, std::int64_t, std::int64_t);
void rotate(const Rotation &, std::int64_t, std::int64_t);
void add(const RowSum &, std::int64_t, std::int64_t);
void segment_means(const SegmentMeans &, std::int64_t, std::int64_t);
void unit_rows(const UnitRows &, std::int64_t, std::int64_t);
void add_weighted(const WeightedRows &, std::int64_t, std::int64_t);
void finish(const Epilogue &, std::int64_t, std::int64_t, std::int64_t, const float *, const float *, std::int64_t);

extern const RowKernels rows;
const RowKernels rows = {rms_norm, layer_norm, rotate, add, segment_means, unit_rows, add_weighted, finish};

}  // namespace ANTIPHON_VARIANT
}  // namespace antiphon
