#include "linear/adapters.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/scratch.h"

namespace antiphon {
namespace {

constexpr std::int64_t kLoneProduct = std::int64_t(1) << 17;  // fewer multiplications are not worth another thread

float *floats(Scratch &scratch, std::int64_t count) {
    return reinterpret_cast<float *>(scratch.reserve(std::size_t(std::max<std::int64_t>(1, count)) * sizeof(float)));
}

void multiply(const LinearCall &call, const Matrix &matrix, const float *x, std::int64_t x_stride, std::int64_t tokens,
              float *out, std::int64_t out_stride) {
    const int threads = tokens * matrix.rows * matrix.columns < kLoneProduct ? 1 : call.threads;
    run_linear({&matrix, x, x_stride, tokens, nullptr, Activation::none, false, nullptr, 0, out, out_stride, threads,
                call.variant});
}

// The deltas of the tokens of one adapter, to rows of `deltas`.
void add_adapter(const LinearCall &call, const AdapterSlot &slot, const std::int64_t *tokens, std::int64_t count,
                 float *deltas) {
    thread_local Scratch inputs, ranks;
    const std::int64_t columns = call.matrix->columns, rows = call.matrix->rows, rank = slot.down->rows;
    const float *x = call.x + tokens[0] * call.x_stride;
    std::int64_t x_stride = call.x_stride;
    if (tokens[count - 1] - tokens[0] != count - 1) {  // not one after the other
        float *const gathered = floats(inputs, count * columns);
        for (std::int64_t i = 0; i < count; ++i) {
            std::memcpy(gathered + i * columns, call.x + tokens[i] * call.x_stride, columns * sizeof(float));
        }
        x = gathered;
        x_stride = columns;
    }
    float *const reduced = floats(ranks, count * rank);
    multiply(call, *slot.down, x, x_stride, count, reduced, rank);
    std::memset(deltas, 0, std::size_t(count * rows) * sizeof(float));
    for (const AdapterUp &up : slot.ups) {
        for (std::int64_t i = 0; i < count; ++i) {
            float *const row = reduced + i * rank + up.offset;
            for (std::int64_t j = 0; j < up.up->columns; ++j) row[j] *= up.scale;
        }
        multiply(call, *up.up, reduced + up.offset, rank, count, deltas + up.first, rows);
    }
}

}  // namespace

void AdapterTable::set(std::size_t slot, AdapterSlot entry, std::int64_t rows) {
    for (const AdapterUp &up : entry.ups) {
        if (up.first < 0 || up.first + up.up->rows > rows || up.offset < 0 || up.offset + up.up->columns > entry.down->rows) {
            throw std::invalid_argument("an adapter of " + std::to_string(up.up->rows) + " rows from row " +
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
    thread_local std::vector<std::int64_t> order, rows;
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
    const std::int64_t adapted = std::int64_t(order.size()), width = call.matrix->rows;
    float *const deltas = floats(scratch, adapted * width);
    rows.assign(call.tokens, -1);
    for (std::int64_t i = 0; i < adapted; ++i) rows[order[i]] = i;
    for (std::int64_t begin = 0, end; begin < adapted; begin = end) {
        end = begin + 1;
        while (end < adapted && slots[order[end]] == slots[order[begin]]) ++end;
        add_adapter(call, *adapter(order[begin]), order.data() + begin, end - begin, deltas + begin * width);
    }
    const RowDeltas found{deltas, rows.data()};
    call.deltas = &found;
    run_linear(call);
}

}  // namespace antiphon
