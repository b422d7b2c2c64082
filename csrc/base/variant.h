// The kernels of one instruction set, and which sets this processor can run.
//
// Each folder defines the tables of its own kernels; here they are only names.

#pragma once

#include <vector>

namespace antiphon {

struct AttentionKernels;
struct FrameKernels;
struct HalfKernels;
struct Int8AttentionKernels;
struct LimitKernels;
struct PackedKernels;
struct RowKernels;
struct SamplingKernels;
struct ScaledKernels;
struct SoftmaxKernels;
struct TypeKernels;

struct Variant {
    const char *name;
    // The kernels of a GGUF type id, or null for a type that has none.
    const TypeKernels *(*find)(int type);
    const AttentionKernels *attention;
    const RowKernels *rows;
    const FrameKernels *frames;
    const SamplingKernels *sampling;
    const SoftmaxKernels *softmax;
    const LimitKernels *limits;
    const PackedKernels *packed;
    const HalfKernels *half;  // null where this processor does not compute in a 16-bit type
    const ScaledKernels *scaled;  // null where int8 rows are no faster than packed products
    const Int8AttentionKernels *int8_attention;  // null where packed products serve as well
};

// The variants that this processor can run, the best first; never empty.
const std::vector<Variant> &variants();

}  // namespace antiphon
