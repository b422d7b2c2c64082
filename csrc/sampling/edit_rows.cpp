// Gathers each row's edits and runs the rows on the pool's threads.

#include "sampling/edit_rows.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "base/workspace.h"
#include "sampling/kernels.h"

namespace antiphon {
namespace {

TokenList list_of(const TokenLists &lists, std::int64_t row) {
    if (!lists.row_start) return {};
    const std::int32_t begin = lists.row_start[row];
    return {lists.ids + begin, lists.values ? lists.values + begin : nullptr, lists.row_start[row + 1] - begin};
}

struct Work {
    const SamplingKernels *kernels;
    const LogitEdits &edits;
    float *logits, *kept;
    std::int64_t stride, vocabulary;

    RowEdits row(std::int64_t index) const {
        RowEdits found{logits + index * stride, vocabulary};
        if (edits.mask_index && edits.mask_index[index] >= 0) {
            found.mask = edits.masks + edits.mask_index[index] * edits.mask_bytes;
        }
        found.allowed = list_of(edits.allowed, index);
        if (found.allowed.count) found.kept = kept + edits.allowed.row_start[index];
        found.banned = list_of(edits.banned, index);
        if (edits.spans) found.span = edits.spans + 5 * index;
        found.bias = list_of(edits.bias, index);
        if (edits.penalties && edits.slots[index] >= 0) {
            const TokenCounts &counts = edits.counts;
            const std::int64_t slot = edits.slots[index];
            found.penalties = edits.penalties + 3 * index;
            found.seen = {counts.ids + slot * counts.capacity, nullptr, counts.num_ids[slot]};
            found.times = counts.counts + slot * counts.capacity;
        }
        return found;
    }
    static void run(void *context, std::uint32_t index, int) {
        const Work &work = *static_cast<Work *>(context);
        work.kernels->edit(work.row(index));
    }
};

}  // namespace

void edit_rows(float *logits, std::int64_t stride, std::int64_t count, std::int64_t vocabulary, const LogitEdits &edits,
               int threads, const Variant &variant) {
    if (count <= 0 || vocabulary <= 0) return;
    const std::int64_t num_allowed = edits.allowed.row_start ? edits.allowed.row_start[count] : 0;
    float *kept = num_allowed ? reinterpret_cast<float *>(workspace(num_allowed * sizeof(float))) : nullptr;
    Work work{variant.sampling, edits, logits, kept, stride, vocabulary};
    run_tasks(std::uint32_t(count), threads, Work::run, &work);
}

void count_tokens(const TokenCounts &counts, const std::int32_t *slots, const std::int64_t *tokens, std::int64_t count) {
    for (std::int64_t r = 0; r < count; ++r) {
        if (slots[r] < 0) continue;
        std::int32_t *ids = counts.ids + slots[r] * counts.capacity, *times = counts.counts + slots[r] * counts.capacity;
        std::int32_t &num_ids = counts.num_ids[slots[r]];
        const std::int32_t token = std::int32_t(tokens[r]);
        const std::int64_t index = std::find(ids, ids + num_ids, token) - ids;
        if (index == num_ids) {
            ids[num_ids++] = token;
            times[index] = 0;
        }
        ++times[index];
    }
}

}  // namespace antiphon
