// Tile registers of AMX, all with sixteen rows of 64 bytes.

#pragma once

#include <immintrin.h>

#include <cstdint>

namespace antiphon {
namespace {

struct alignas(64) FullTiles {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(FullTiles) == 64, "as the instruction reads it");

// Configures the calling thread's tile registers during the session's lifetime.
struct TileSession {
    TileSession() {
        const FullTiles shapes;
        asm volatile("ldtilecfg %0" : : "m"(shapes));
    }
    ~TileSession() { _tile_release(); }
};

}  // namespace
}  // namespace antiphon
