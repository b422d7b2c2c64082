// What this machine can do at best: bytes read and multiplications with additions per second.

#pragma once

#include <cstddef>
#include <cstdint>

namespace antiphon {

struct LimitKernels {
    // Reads all bytes; the result keeps the compiler from leaving it out. `bytes` is a multiple of 256.
    float (*read)(const char *data, std::size_t bytes);
    // So many rounds of `multiplications` multiplications with additions each.
    float (*multiply)(std::int64_t rounds);
    std::int64_t multiplications;
};

// Bytes a second that `threads` threads read from a buffer of `bytes`, the best of `repeats`.
double read_rate(std::size_t bytes, int repeats, int threads, const LimitKernels &kernels);
// Multiplications with additions of floats a second of `threads` threads.
double multiply_rate(double seconds, int threads, const LimitKernels &kernels);
// The same of int8, by the processor's dot product instruction; 0 where it has none that products use.
double int8_multiply_rate(double seconds, int threads);

}  // namespace antiphon
