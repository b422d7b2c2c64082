// Kernels of one instruction set, and the sets that this processor can run.
//
// Each folder defines the tables of its own kernels; here they are only declared.

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
    // Returns the kernels of a GGUF type id, or null for a type without kernels.
    const TypeKernels *(*find)(int type);
    const AttentionKernels *attention;
    const RowKernels *rows;
    const FrameKernels *frames;
    const SamplingKernels *sampling;
    const SoftmaxKernels *softmax;
    const LimitKernels *limits;
    const PackedKernels *packed;
    const HalfKernels *half;  // null if this processor does not compute in a 16-bit type
    const ScaledKernels *scaled;  // null if int8 rows are not faster than packed products
    const Int8AttentionKernels *int8_attention;  // null if packed products are as fast
};

// Variants that this processor can run, best first; never empty.
const std::vector<Variant> &variants();

#if defined(__aarch64__)
// Whether this processor has dot products of 8-bit integers, and arithmetic with 16-bit floats.
bool has_dot_products();
bool has_half_arithmetic();
#endif

}  // namespace antiphon
