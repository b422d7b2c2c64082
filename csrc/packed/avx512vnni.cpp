// Packed product for x86 processors with AVX-512 and its dot product instructions.

#include "packed/vnni.h"

namespace antiphon {
namespace avx512vnni {
extern const PackedKernels packed;
const PackedKernels packed = {quantize_tokens<Vnni>, multiply_packed<Vnni>, packed_scratch_bytes};
}  // namespace avx512vnni
}  // namespace antiphon
