// Scratch memory that lives as long as its thread.

#pragma once

#include <cstddef>

namespace antiphon {

// Returns at least `bytes` of the calling thread's memory, aligned to 64 bytes; the thread's next call reuses them.
char *workspace(std::size_t bytes);

}  // namespace antiphon
