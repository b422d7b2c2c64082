// Pool of threads that lives as long as the process and runs the tasks of one call at a time.

#pragma once

#include <cstdint>

namespace antiphon {

// Runs task(context, index, thread) for every index in [0, count), on the calling thread (thread 0) and at most
// `threads` - 1 others, and returns when all are done. Tasks must not throw. Callers from several threads take turns.
// A forked child starts its own threads on first use.
void run_tasks(std::uint32_t count, int threads, void (*task)(void *, std::uint32_t, int), void *context);

}  // namespace antiphon
