// Dot products of a tile as inline assembly: compilers would spill its accumulators.

#pragma once

// Multiplies a quad of columns of eight tokens, in a lane of v0 to v7, with eight rows, in two registers; sums in v16 to v31.
#define ANTIPHON_SDOT_TOKEN(x, low, high, first, second, lane) \
    "sdot v" #low ".4s, v" #first ".16b, v" #x ".4b[" #lane "]\n" \
    "sdot v" #high ".4s, v" #second ".16b, v" #x ".4b[" #lane "]\n"
#define ANTIPHON_SDOT_8X8(first, second, lane) \
    ANTIPHON_SDOT_TOKEN(0, 16, 17, first, second, lane) \
    ANTIPHON_SDOT_TOKEN(1, 18, 19, first, second, lane) \
    ANTIPHON_SDOT_TOKEN(2, 20, 21, first, second, lane) \
    ANTIPHON_SDOT_TOKEN(3, 22, 23, first, second, lane) \
    ANTIPHON_SDOT_TOKEN(4, 24, 25, first, second, lane) \
    ANTIPHON_SDOT_TOKEN(5, 26, 27, first, second, lane) \
    ANTIPHON_SDOT_TOKEN(6, 28, 29, first, second, lane) \
    ANTIPHON_SDOT_TOKEN(7, 30, 31, first, second, lane)

// The same for four tokens, in a lane of v8 to v11; sums in v0 to v7, which leaves sixteen registers for totals.
#define ANTIPHON_SDOT_4X8(first, second, lane) \
    ANTIPHON_SDOT_TOKEN(8, 0, 1, first, second, lane) \
    ANTIPHON_SDOT_TOKEN(9, 2, 3, first, second, lane) \
    ANTIPHON_SDOT_TOKEN(10, 4, 5, first, second, lane) \
    ANTIPHON_SDOT_TOKEN(11, 6, 7, first, second, lane)
