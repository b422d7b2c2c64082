// Peak rates of this machine: bytes read and multiply-adds per second.

#pragma once

#include <cstddef>
#include <cstdint>

namespace antiphon {

struct LimitKernels {
    // Reads all bytes; the result keeps the compiler from removing the loop. `bytes` must be a multiple of 256.
    float (*read)(const char *data, std::size_t bytes);
    // Computes `rounds` times `multiplications` multiply-adds.
    float (*multiply)(std::int64_t rounds);
    std::int64_t multiplications;
};

// Bytes per second that `threads` threads read from a buffer of `bytes`: the best of `repeats` runs.
double read_rate(std::size_t bytes, int repeats, int threads, const LimitKernels &kernels);
// Multiply-adds of floats per second on `threads` threads.
double multiply_rate(double seconds, int threads, const LimitKernels &kernels);
// Multiply-adds of int8 per second by the dot product instruction that products use; 0 on processors without one.
double int8_multiply_rate(double seconds, int threads);

}  // namespace antiphon
