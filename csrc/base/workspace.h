// Scratch memory that lives as long as its thread.

#pragma once

#include <cstddef>

namespace antiphon {

// At least `bytes` of the calling thread's memory, aligned to 64 bytes; the next call returns the same memory.
char *workspace(std::size_t bytes);

}  // namespace antiphon
