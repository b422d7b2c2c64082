// Attention. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "attention/kernels.h"

#include "attention/few_rows.h"
#include "attention/many_rows.h"
#include "base/functions.h"

namespace antiphon {
namespace {

struct Range {
    std::int64_t begin, end;
    Range clipped(std::int64_t low, std::int64_t high) const {
        return {begin > low ? begin : low, end < high ? end : high};
    }
    bool empty() const { return begin >= end; }
};

// Keys that a row sees within a partition: of the sink tokens, and of the window.
struct RowView {
    Range parts[2];
    RowView(const Attention &a, const AttentionTile &tile, std::int64_t row, Range partition) {
        const std::int64_t query = tile.query_of(a, row);
        const Visible seen = visible_to(a, tile, query, query);
        parts[0] = Range{0, seen.sink_end}.clipped(partition.begin, partition.end);
        parts[1] = Range{seen.begin, seen.end}.clipped(partition.begin, partition.end);
    }
};

// Adds the visible values of a tile to `rows` rows from `row` on; keys that all rows see are added to these together.
template <int rows>
void add_visible(const Workspace &w, Matrix values, Range tile_keys, std::int64_t first, const Range *seen, std::int64_t row) {
    Range common = tile_keys;
    Range own[rows];
    for (int r = 0; r < rows; ++r) {
        own[r] = seen[r].clipped(tile_keys.begin, tile_keys.end);
        common = common.clipped(own[r].begin, own[r].end);
    }
    float *const sums = w.sums + row * w.partial + 8;
    const float *const weights = w.scores + row * kScoreStride - first;
    const auto from = [&](std::int64_t key) { return Matrix{values.data + (key - tile_keys.begin) * values.stride, values.stride}; };
    if (common.empty()) {
        for (int r = 0; r < rows; ++r) {
            if (own[r].empty()) continue;
            add_rows<1>(from(own[r].begin), w.width, own[r].end - own[r].begin,
                        weights + r * kScoreStride + own[r].begin, sums + r * w.partial, w.partial);
        }
        return;
    }
    for (int r = 0; r < rows; ++r) {
        add_rows<1>(from(own[r].begin), w.width, common.begin - own[r].begin, weights + r * kScoreStride + own[r].begin,
                    sums + r * w.partial, w.partial);
    }
    add_rows<rows>(from(common.begin), w.width, common.end - common.begin, weights + common.begin, sums, w.partial);
    for (int r = 0; r < rows; ++r) {
        add_rows<1>(from(common.end), w.width, own[r].end - common.end, weights + r * kScoreStride + common.end,
                    sums + r * w.partial, w.partial);
    }
}

// Calls visit(begin, end) for the parts of `range` that lie within one block and one tile of keys each.
template <class Visit> ANTIPHON_INLINE void for_each_tile(const Attention &a, Range range, Visit visit) {
    const std::int64_t step = a.block_tokens < kKeyTile ? a.block_tokens : kKeyTile;
    while (!range.empty()) {
        const std::int64_t next = (range.begin / step + 1) * step;
        const std::int64_t end = next < range.end ? next : range.end;
        visit(range.begin, end);
        range.begin = end;
    }
}

// Turns the scores of one row into weights e^(score - maximum), and stores maximum and total before its sum of values.
void weigh_row(const Attention &a, const AttentionTile &tile, const RowView &view, std::int64_t row, std::int64_t first,
               float *scores, float *partial) {
    partial[0] = -kInfinity;
    partial[1] = 0;
    const Range sink = view.parts[0], window = view.parts[1];
    if (sink.empty() && window.empty()) return;
    const std::int64_t begin = ((sink.empty() ? window.begin : sink.begin) - first) / kLanes * kLanes;
    const std::int64_t last = (window.empty() ? sink.end : window.end) - first;
    const std::int64_t end = (last + kLanes - 1) / kLanes * kLanes;
    if (a.softcap) {
        const Floats cap = splat(a.softcap);
        for (std::int64_t i = begin; i < end; i += kLanes) {
            store(scores + i, hyperbolic_tangent(load(scores + i) / cap) * cap);
        }
    }
    if (a.bias) {
        const std::int64_t position = tile.position + tile.query_of(a, row);
        const float *bias = a.bias + tile.head_of(a, row) * a.bias_head_stride + position * a.bias_query_stride;
        for (const Range part : view.parts) {
            for (std::int64_t key = part.begin; key < part.end; ++key) scores[key - first] += bias[key];
        }
    }
    std::int64_t seen = begin;
    for (const Range part : view.parts) {
        if (part.empty()) continue;
        for (; seen < part.begin - first; ++seen) scores[seen] = -kInfinity;
        seen = part.end - first;
    }
    for (; seen < end; ++seen) scores[seen] = -kInfinity;

    Floats maxima = splat(-kInfinity);
    for (std::int64_t i = begin; i < end; i += kLanes) maxima = maximum(maxima, load(scores + i));
    const float top = largest(maxima);
    if (top == -kInfinity) {
        for (std::int64_t i = begin; i < end; i += kLanes) store(scores + i, zeros());
        return;
    }
    Floats total = zeros();
    for (std::int64_t i = begin; i < end; i += kLanes) {
        const Floats weight = exponential(load(scores + i) - splat(top));
        store(scores + i, weight);
        total = total + weight;
    }
    partial[0] = top;
    partial[1] = sum(total);
}

void load_queries(const Attention &a, const AttentionTile &tile, const Workspace &w) {
    for (std::int64_t row = 0; row < w.rows; ++row) {
        const std::int64_t head = tile.head_of(a, row);
        const float *source = a.q + (tile.first_query + tile.query_of(a, row)) * a.q_token_stride + head * a.q_head_stride;
        float *target = w.q + row * w.width;
        for (std::int64_t i = 0; i < w.width; ++i) target[i] = i < a.head_dim ? source[i] * a.scale : 0;
        if (a.keys.balance) {
            const float *balance = a.keys.balance + head / a.heads_per_kv_head * a.head_dim;
            for (std::int64_t i = 0; i < a.head_dim; ++i) target[i] *= balance[i];
        }
    }
}

constexpr std::int64_t kBand = 64;  // rows whose views are held at a time

// Adds the values of a partition to the sums of rows [band, band_end).
void add_band(const Attention &a, const AttentionTile &tile, const Workspace &w, Range partition, const Range (&parts)[2],
              std::int64_t band, std::int64_t band_end) {
    Range views[2][kBand];
    for (std::int64_t row = band; row < band_end; ++row) {
        const RowView view(a, tile, row, partition);
        for (int p = 0; p < 2; ++p) views[p][row - band] = view.parts[p];
    }
    for (int p = 0; p < 2; ++p) {
        for_each_tile(a, parts[p], [&](std::int64_t begin, std::int64_t end) {
            const Matrix values = read_tokens(a.values, a, tile, begin, end - begin, w.decoded);
            std::int64_t row = band;
            for (; row + 4 <= band_end; row += 4) {
                add_visible<4>(w, values, {begin, end}, partition.begin, views[p] + row - band, row);
            }
            const Range *const rest = views[p] + row - band;
            switch (band_end - row) {
            case 3: add_visible<3>(w, values, {begin, end}, partition.begin, rest, row); break;
            case 2: add_visible<2>(w, values, {begin, end}, partition.begin, rest, row); break;
            case 1: add_visible<1>(w, values, {begin, end}, partition.begin, rest, row); break;
            default: break;
            }
        });
    }
}

// Prefetches tokens of the next block: blocks lie anywhere in memory, so hardware prefetching does not find it.
void prefetch_tokens(const Region &region, const Attention &a, const AttentionTile &tile, std::int64_t kv_head, Range tokens) {
    if (tokens.empty()) return;
    const std::int64_t in_block = a.block_tokens - tokens.begin % a.block_tokens, left = tokens.end - tokens.begin;
    const StoredTokens stored = stored_tokens(region, a, tile, kv_head, tokens.begin);
    const std::int64_t bytes = (in_block < left ? in_block : left) * stored.stride;
    for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(stored.data + i, 0, 2);
}

// Calls visit(tokens, begin, count, element, rows, first row) for each handful of rows of each head, block by block, since
// the heads of a block are contiguous and read in one pass.
template <class Visit>
ANTIPHON_INLINE void for_each_read(const Region &region, const Attention &a, const AttentionTile &tile, Range part,
                                   Visit visit) {
    for_each_tile(a, part, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t head = 0; head < tile.kv_heads; ++head) {
            const StoredTokens tokens = stored_tokens(region, a, tile, tile.kv_head + head, begin);
            prefetch_tokens(region, a, tile, tile.kv_head + head, {end, part.end});
            for_each_handful(region.element, a.heads_per_kv_head, [&](auto element, auto rows, std::int64_t row) {
                visit(tokens, begin, end - begin, element, rows, head * a.heads_per_kv_head + row);
            });
        }
    });
}

void score_part(const Attention &a, const AttentionTile &tile, const Workspace &w, Range part, float *scores) {
    for_each_read(a.keys, a, tile, part, [&](const StoredTokens &keys, std::int64_t begin, std::int64_t count, auto element,
                                             auto rows, std::int64_t row) {
        score_keys<element.value, rows.value>(w.q + row * w.width, w.width, keys, count,
                                              scores + row * kScoreStride + begin - part.begin, kScoreStride);
    });
}

void weigh_part(const Attention &a, const AttentionTile &tile, const Workspace &w, Range part, const float *weights) {
    for_each_read(a.values, a, tile, part, [&](const StoredTokens &values, std::int64_t begin, std::int64_t count,
                                               auto element, auto rows, std::int64_t row) {
        weigh_values<element.value, rows.value>(values, w.width, count, weights + row * kScoreStride + begin - part.begin,
                                                kScoreStride, w.sums + row * w.partial + 8, w.partial);
    });
}

// Computes one partition for all rows into w.sums.
void attend_one(const Attention &a, const AttentionTile &tile, const Workspace &w, const Visible &seen, std::int64_t index) {
    const Range partition{index * kPartition, (index + 1) * kPartition};
    const Range parts[2] = {Range{0, seen.sink_end}.clipped(partition.begin, partition.end),
                            Range{seen.begin, seen.end}.clipped(partition.begin, partition.end)};
    const bool is_direct = reads_once(a, tile.num_queries);
    for (const Range part : parts) {
        if (is_direct) {
            score_part(a, tile, w, part, w.scores + part.begin - partition.begin);
            prefetch_tokens(a.values, a, tile, tile.kv_head, part);
            continue;
        }
        for_each_tile(a, part, [&](std::int64_t begin, std::int64_t end) {
            const Matrix keys = read_tokens(a.keys, a, tile, begin, end - begin, w.decoded);
            multiply_keys(w, keys, end - begin, w.scores + begin - partition.begin);
        });
    }
    for (std::int64_t row = 0; row < w.rows; ++row) {
        const RowView view(a, tile, row, partition);
        float *partial = w.sums + row * w.partial;
        weigh_row(a, tile, view, row, partition.begin, w.scores + row * kScoreStride, partial);
        for (std::int64_t i = 0; i < w.width; i += kLanes) store(partial + 8 + i, zeros());
    }
    if (is_direct) {
        for (const Range part : parts) weigh_part(a, tile, w, part, w.scores + part.begin - partition.begin);
        return;
    }
    for (std::int64_t band = 0; band < w.rows; band += kBand) {
        add_band(a, tile, w, partition, parts, band, band + kBand < w.rows ? band + kBand : w.rows);
    }
}

// Starts each row with its sink, a logit without a value.
void begin_rows(const Attention &a, const AttentionTile &tile, const Workspace &w) {
    for (std::int64_t row = 0; row < w.rows; ++row) {
        float *running = w.running + row * w.partial;
        running[0] = a.sinks ? a.sinks[tile.head_of(a, row)] : -kInfinity;
        running[1] = a.sinks ? 1.0f : 0.0f;
        for (std::int64_t i = 0; i < w.width; i += kLanes) store(running + 8 + i, zeros());
    }
}

void join_partition(const Workspace &w, const float *partials) {
    for (std::int64_t row = 0; row < w.rows; ++row) {
        float *running = w.running + row * w.partial;
        const float *partial = partials + row * w.partial;
        if (partial[0] == -kInfinity) continue;
        const float top = partial[0] > running[0] ? partial[0] : running[0];
        const float keep = exponential(running[0] - top), take = exponential(partial[0] - top);
        running[0] = top;
        running[1] = running[1] * keep + partial[1] * take;
        for (std::int64_t i = 8; i < w.partial; i += kLanes) {
            store(running + i, multiply_add(load(partial + i), splat(take), load(running + i) * splat(keep)));
        }
    }
}

void finish_rows(const Attention &a, const AttentionTile &tile, const Workspace &w) {
    for (std::int64_t row = 0; row < w.rows; ++row) {
        const float *running = w.running + row * w.partial;
        const std::int64_t token = tile.first_query + tile.query_of(a, row);
        float *out = a.out + token * a.out_token_stride + tile.head_of(a, row) * a.head_dim;
        const float share = 1.0f / running[1];
        for (std::int64_t i = 0; i < a.head_dim; ++i) out[i] = running[8 + i] * share;
    }
}

void attend(const Attention &a, const AttentionTile &tile, float *scratch) {
    const Workspace w(a, tile, scratch);
    const Visible seen = visible_to(a, tile);
    load_queries(a, tile, w);
    begin_rows(a, tile, w);
    for (std::int64_t index = 0; index * kPartition < seen.end; ++index) {
        if (!sees_partition(seen, index)) continue;
        attend_one(a, tile, w, seen, index);
        join_partition(w, w.sums);
    }
    finish_rows(a, tile, w);
}

void attend_partition(const Attention &a, const AttentionTile &tile, std::int64_t index, float *scratch, float *partial) {
    Workspace w(a, tile, scratch);
    w.sums = partial;
    load_queries(a, tile, w);
    attend_one(a, tile, w, visible_to(a, tile), index);
}

void join(const Attention &a, const AttentionTile &tile, const float *partials, float *scratch, std::int64_t stride) {
    const Workspace w(a, tile, scratch);
    const Visible seen = visible_to(a, tile);
    begin_rows(a, tile, w);
    for (std::int64_t index = 0; index * kPartition < seen.end; ++index) {
        if (!sees_partition(seen, index)) continue;
        join_partition(w, partials);
        partials += stride;
    }
    finish_rows(a, tile, w);
}

}  // namespace

namespace ANTIPHON_VARIANT {

void store_row(const Region &, std::int64_t, std::int64_t, std::int64_t, std::int64_t, const float *);

extern const AttentionKernels attention;
const AttentionKernels attention = {attend, attend_partition, join, store_row};

}  // namespace ANTIPHON_VARIANT

}  // namespace antiphon
