// Scratch memory that lives as long as its thread.

#pragma once

#include <cstddef>

namespace antiphon {

// Memory of the calling thread, aligned to 64 bytes, at least `bytes` of it and kept for the next call.
char *workspace(std::size_t bytes);

}  // namespace antiphon
