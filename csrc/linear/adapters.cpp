#include "linear/adapters.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/scratch.h"

namespace antiphon {
namespace {

constexpr std::int64_t kLoneProduct = std::int64_t(1) << 17;  // multiplications below which one thread is faster than several

float *floats(Scratch &scratch, std::int64_t count) {
    return reinterpret_cast<float *>(scratch.reserve(std::size_t(std::max<std::int64_t>(1, count)) * sizeof(float)));
}

void multiply(const LinearCall &call, const Matrix &matrix, const float *x, std::int64_t x_stride, std::int64_t tokens,
              float *out, std::int64_t out_stride) {
    const int threads = tokens * matrix.rows * matrix.columns < kLoneProduct ? 1 : call.threads;
    run_linear({&matrix, x, x_stride, tokens, nullptr, Activation::none, false, nullptr, 0, out, out_stride, threads,
                call.variant});
}

// Computes down · x for the tokens of one adapter.
void reduce(const LinearCall &call, const Matrix &down, const std::int64_t *tokens, std::int64_t count, float *out) {
    thread_local Scratch inputs;
    const std::int64_t columns = call.matrix->columns;
    const float *x = call.x + tokens[0] * call.x_stride;
    std::int64_t x_stride = call.x_stride;
    if (tokens[count - 1] - tokens[0] != count - 1) {  // the tokens are not consecutive
        float *const gathered = floats(inputs, count * columns);
        for (std::int64_t i = 0; i < count; ++i) {
            std::memcpy(gathered + i * columns, call.x + tokens[i] * call.x_stride, columns * sizeof(float));
        }
        x = gathered;
        x_stride = columns;
    }
    multiply(call, down, x, x_stride, count, out, down.rows);
}

}  // namespace

void AdapterTable::set(std::size_t slot, AdapterSlot entry, std::int64_t rows) {
    for (const AdapterUp &up : entry.ups) {
        if (up.first < 0 || up.first + up.width > rows || up.offset < 0 || up.offset + up.rank > entry.down->rows) {
            throw std::invalid_argument("an adapter of " + std::to_string(up.width) + " rows from row " +
                                        std::to_string(up.first) + " does not fit a layer of " + std::to_string(rows));
        }
    }
    if (slots.size() <= slot) slots.resize(slot + 1);
    slots[slot] = std::move(entry);
}

void AdapterTable::clear(std::size_t slot) {
    if (slot < slots.size()) slots[slot] = {};
}

void run_adapted_linear(LinearCall call, const AdapterTable &table, const std::int32_t *slots) {
    thread_local Scratch scratch;
    thread_local std::vector<std::int64_t> order;
    thread_local std::vector<LinearDelta> deltas;
    const auto adapter = [&](std::int64_t t) {
        const bool known = slots[t] >= 0 && std::size_t(slots[t]) < table.slots.size();
        return known && table.slots[slots[t]].down ? &table.slots[slots[t]] : nullptr;
    };
    order.clear();
    for (std::int64_t t = 0; t < call.tokens; ++t) {
        if (adapter(t)) order.push_back(t);
    }
    if (order.empty()) return run_linear(call);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return slots[a] < slots[b]; });
    const std::int64_t adapted = std::int64_t(order.size());
    std::int64_t rank = 0;
    for (const std::int64_t t : order) rank = std::max(rank, adapter(t)->down->rows);
    float *const reduced = floats(scratch, adapted * rank);
    deltas.clear();
    for (std::int64_t begin = 0, end; begin < adapted; begin = end) {
        end = begin + 1;
        while (end < adapted && slots[order[end]] == slots[order[begin]]) ++end;
        const AdapterSlot &slot = *adapter(order[begin]);
        const std::int64_t *const tokens = order.data() + begin;
        float *const own = reduced + begin * rank;
        reduce(call, *slot.down, tokens, end - begin, own);
        for (const AdapterUp &up : slot.ups) {
            deltas.push_back({own + up.offset, slot.down->rows, up.rows, up.rank, up.width, up.first, tokens, end - begin});
        }
    }
    call.deltas = deltas.data();
    call.num_deltas = deltas.size();
    run_linear(call);
}

}  // namespace antiphon
