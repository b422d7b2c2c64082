// Quantisation of floats to GGUF's Q8_0 and Q4_1, for weights that are quantised at load time.

#pragma once

#include <cstddef>
#include <cstdint>

namespace antiphon {

// Whether rows can be quantised to a GGUF type id.
bool quantizes_to(int type);

// Bytes of a row; `columns` must be a multiple of 32.
std::size_t quantized_row_bytes(int type, std::int64_t columns);

// Q8_0: the largest magnitude of 32 columns becomes 127. Q4_1: of several ranges for each 32 columns, each with the scale
// and minimum that fit its codes best, the range with the least squared error is used.
void quantize_row(int type, const float *row, std::int64_t columns, std::uint8_t *out);

}  // namespace antiphon
