// Low-rank adapters (LoRA, arXiv:2106.09685) of one linear layer: products in which each token may have its own adapter.

#pragma once

#include <cstdint>
#include <vector>

#include "linear/matrix.h"
#include "linear/product.h"

namespace antiphon {

// Up matrix of an adapter: the `rank` numbers of down · x from `offset` on, each times one of `rows`, are added to rows
// [first, first + width) of the layer's product.
struct AdapterUp {
    const float *rows;  // [rank, width], scaled
    std::int64_t rank, width, first, offset;
};

struct AdapterSlot {
    const Matrix *down = nullptr;  // [sum of the ups' ranks, columns]; null: the adapter does not change this layer
    std::vector<AdapterUp> ups;
};

// Adapters by slot. May be changed only between runs; its creator must keep the matrices alive.
struct AdapterTable {
    std::vector<AdapterSlot> slots;

    // Throws `std::invalid_argument` if ups do not fit `rows` and the rank of `down`.
    void set(std::size_t slot, AdapterSlot entry, std::int64_t rows);
    void clear(std::size_t slot);
};

// `run_linear` with adapters; `slots` has the adapter slot of each token, negative without an adapter. A row of the result
// depends only on its own row of x and its own adapter. Tokens without an adapter have the bits of `run_linear`.
void run_adapted_linear(LinearCall call, const AdapterTable &table, const std::int32_t *slots);

}  // namespace antiphon
