// Low-rank adapters (LoRA, arXiv:2106.09685) of one linear layer: products in which each token may have its own.

#pragma once

#include <cstdint>
#include <vector>

#include "linear/matrix.h"
#include "linear/product.h"

namespace antiphon {

// What an adapter adds to rows of the layer's product: scale · up · (rows of the layer's `down` from `offset` on).
struct AdapterUp {
    const Matrix *up;            // [rows, rank]
    std::int64_t first, offset;  // first row of the product; first column of down · x
    float scale;
};

struct AdapterSlot {
    const Matrix *down = nullptr;  // [ranks of all ups, columns]; null: the adapter leaves this layer as it is
    std::vector<AdapterUp> ups;
};

// Adapters by slot. Changed between runs only; the creator keeps the matrices alive.
struct AdapterTable {
    std::vector<AdapterSlot> slots;

    // Throws `std::invalid_argument` for ups that do not fit `rows` and the rank of `down`.
    void set(std::size_t slot, AdapterSlot entry, std::int64_t rows);
    void clear(std::size_t slot);
};

// `run_linear` with the adapters of the tokens; `slots` has one for each token, negative for none. A row of the result
// depends on its own row of x and its own adapter alone, and a token without an adapter has the bits of `run_linear`.
void run_adapted_linear(LinearCall call, const AdapterTable &table, const std::int32_t *slots);

}  // namespace antiphon
