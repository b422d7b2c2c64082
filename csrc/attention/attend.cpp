#include "attention/attend.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "base/workspace.h"

namespace antiphon {
namespace {

constexpr std::int64_t kFewestRows = 16, kMostRows = 64;          // rows of a tile
constexpr std::int64_t kPiecesPerThread = 4;                      // minimum, if the work has enough pieces
constexpr std::size_t kMostPartialBytes = std::size_t(64) << 20;  // with larger partial results a split by keys is slower

// One partition of a tile.
struct Piece {
    std::int64_t tile, partition;
};

struct Work {
    const AttentionKernels *kernels;
    Attention attention;
    std::vector<AttentionTile> &tiles;
    std::int64_t target_rows = kMostRows, kv_heads_read = 1;
    std::int64_t scratch_floats = 0;
    float *scratch = nullptr;
    // Used by a split by keys: the pieces of all tiles in order, the first piece of each tile, and the pieces' results.
    std::vector<Piece> &pieces;
    std::vector<std::int64_t> &first_piece;
    float *partials = nullptr;
    std::int64_t piece_floats = 0;

    Work(const Variant &variant, const Attention &attention_) : Work(variant, attention_, lists()) {}

    // Large tiles read keys and values less often; small tiles are used if large ones would be too few for the threads.
    void size_tiles(std::int64_t rows, int threads) {
        target_rows = std::clamp(rows / (4 * std::max(threads, 1)), kFewestRows, kMostRows);
    }

    // Sets the kv heads of a tile whose keys are read once: all heads of a block, or an equal part of these if all would
    // leave too few pieces for the threads.
    void size_reads(std::int64_t kv_heads, std::int64_t partitions, int threads) {
        kv_heads_read = kv_heads;
        while (kv_heads_read > 1 && partitions * (kv_heads / kv_heads_read) < kPiecesPerThread * threads) {
            do --kv_heads_read;
            while (kv_heads % kv_heads_read);
        }
    }

    void add_tiles(std::int64_t kv_heads, const std::int32_t *block_table, std::int64_t first_key, std::int64_t length,
                   std::int64_t first_query, std::int64_t num_queries) {
        const std::int64_t step = std::max<std::int64_t>(1, target_rows / attention.heads_per_kv_head);
        const std::int64_t together = reads_once(attention, num_queries) ? kv_heads_read : 1;
        for (std::int64_t begin = 0; begin < num_queries; begin += step) {
            const std::int64_t count = std::min(step, num_queries - begin);
            for (std::int64_t head = 0; head < kv_heads; head += together) {
                tiles.push_back({block_table, first_key, length, first_query + begin, count, length - num_queries + begin,
                                 head, together});
            }
            const std::int64_t rows = count * together * attention.heads_per_kv_head;
            scratch_floats = std::max(scratch_floats, (attention_scratch_floats(rows, attention.head_dim) + 15) / 16 * 16);
            piece_floats = std::max(piece_floats, rows * partial_floats(attention.head_dim));
        }
    }

    // Makes partitions pieces of work if there are too few tiles for the threads; returns whether to run the pieces.
    bool split(int threads) {
        // Tiles of several kv heads take long: with few of them per thread, threads would wait for the last tile.
        const std::int64_t enough = kv_heads_read > 1 ? 8 : 2;
        if (threads <= 1 || std::int64_t(tiles.size()) >= enough * threads) return false;
        for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
            first_piece.push_back(std::int64_t(pieces.size()));
            const Visible seen = visible_to(attention, tiles[tile]);
            for (std::int64_t index = 0; index * kPartition < seen.end; ++index) {
                if (sees_partition(seen, index)) pieces.push_back({std::int64_t(tile), index});
            }
        }
        return pieces.size() > tiles.size() && pieces.size() * piece_floats * sizeof(float) <= kMostPartialBytes;
    }

    void run(int threads) {
        if (tiles.empty()) return;
        const bool by_keys = split(threads);
        const std::size_t scratch_total = std::size_t(scratch_floats) * std::max(threads, 1);
        const std::size_t partial_total = by_keys ? pieces.size() * std::size_t(piece_floats) : 0;
        scratch = reinterpret_cast<float *>(workspace((scratch_total + partial_total) * sizeof(float)));
        partials = scratch + scratch_total;
        if (!by_keys) {
            run_tasks(std::uint32_t(tiles.size()), threads, attend, this);
            return;
        }
        run_tasks(std::uint32_t(pieces.size()), threads, attend_piece, this);
        run_tasks(std::uint32_t(tiles.size()), threads, join, this);
    }

    // Belong to the calling thread, which reuses their memory in its next call.
    struct Lists {
        std::vector<AttentionTile> tiles;
        std::vector<Piece> pieces;
        std::vector<std::int64_t> first_piece;
    };
    static Lists &lists() {
        thread_local Lists kept;
        return kept;
    }
    Work(const Variant &variant, const Attention &attention_, Lists &kept)
        : kernels(variant.attention), attention(attention_), tiles(kept.tiles), pieces(kept.pieces),
          first_piece(kept.first_piece) {
        tiles.clear();
        pieces.clear();
        first_piece.clear();
    }

    static void attend(void *context, std::uint32_t index, int thread) {
        const Work &work = *static_cast<const Work *>(context);
        work.kernels->attend(work.attention, work.tiles[index], work.scratch + thread * work.scratch_floats);
    }
    static void attend_piece(void *context, std::uint32_t index, int thread) {
        const Work &work = *static_cast<const Work *>(context);
        const Piece piece = work.pieces[index];
        work.kernels->attend_partition(work.attention, work.tiles[piece.tile], piece.partition,
                                       work.scratch + thread * work.scratch_floats, work.partial_of(index));
    }
    static void join(void *context, std::uint32_t index, int thread) {
        const Work &work = *static_cast<const Work *>(context);
        work.kernels->join(work.attention, work.tiles[index], work.partial_of(work.first_piece[index]),
                           work.scratch + thread * work.scratch_floats, work.piece_floats);
    }
    float *partial_of(std::int64_t piece) const { return partials + piece * piece_floats; }
};

std::int64_t element_bytes(Element element) {
    return element == Element::f32 ? 4 : element == Element::i8 ? 1 : 2;
}

struct Writing {
    static constexpr std::int64_t kTokens = 64;  // tokens of a task
    const Pages *pages;
    const Variant *variant;
    HeadRows k, v;
    const std::int64_t *slots;
    std::int64_t tokens;

    static void run(void *context, std::uint32_t index, int) {
        const Writing &w = *static_cast<const Writing *>(context);
        const std::int64_t end = std::min<std::int64_t>((index + 1) * kTokens, w.tokens);
        for (std::int64_t t = index * kTokens; t < end; ++t) {
            w.pages->store_token(w.k.data + t * w.k.token_stride, w.k.head_stride, w.v.data + t * w.v.token_stride,
                                 w.v.head_stride, w.slots[t], *w.variant);
        }
    }
};

}  // namespace

Pages::Pages(std::uint8_t *arena, std::int64_t kv_heads, std::int64_t block_tokens, std::int64_t head_dim,
             Element key_element, Element value_element, std::int64_t key_offset, std::int64_t value_offset,
             std::int64_t key_scale_offset, std::int64_t value_scale_offset, const float *key_balance)
    : kv_heads_(kv_heads), block_tokens_(block_tokens), head_dim_(head_dim) {
    const auto region = [&](Element element, std::int64_t offset, std::int64_t scale_offset) {
        const std::int64_t token = head_dim * element_bytes(element), scale = head_dim / kScaleChannels * 2;
        return Region{element, arena + offset, block_tokens * token, token, arena + scale_offset, block_tokens * scale, scale};
    };
    keys_ = region(key_element, key_offset, key_scale_offset);
    keys_.balance = key_balance;
    values_ = region(value_element, value_offset, value_scale_offset);
}

void Pages::store_token(const float *k, std::int64_t k_head_stride, const float *v, std::int64_t v_head_stride,
                        std::int64_t slot, const Variant &variant) const {
    if (slot < 0) return;
    const std::int64_t block = slot / block_tokens_ * kOffsetUnit, token = slot % block_tokens_;
    for (std::int64_t head = 0; head < kv_heads_; ++head) {
        variant.attention->store(keys_, head_dim_, block, head, token, k + head * k_head_stride);
        variant.attention->store(values_, head_dim_, block, head, token, v + head * v_head_stride);
    }
}

void Pages::store(const HeadRows &k, const HeadRows &v, const std::int64_t *slots, std::int64_t tokens, int threads,
                  const Variant &variant) const {
    Writing writing{this, &variant, k, v, slots, tokens};
    const std::int64_t tasks = (tokens + Writing::kTokens - 1) / Writing::kTokens;
    run_tasks(std::uint32_t(tasks), threads, Writing::run, &writing);
}

void Pages::attend(const HeadRows &q, std::int64_t tokens, std::int64_t heads, const GroupTables &group,
                   const Masking &m, float *out, int threads, const Variant &variant) const {
    Work work(variant, {keys_, values_, block_tokens_, head_dim_, heads / kv_heads_, q.data, q.token_stride, q.head_stride,
                        out, heads * head_dim_, m.scale, m.causal, m.window, m.sink_tokens, m.sinks, m.softcap, m.bias,
                        m.bias_head_stride, m.bias_query_stride});
    const std::int32_t *starts = group.query_start;
    work.size_tiles(tokens * heads, threads);
    std::int64_t partitions = 0;
    for (std::int64_t r = 0; r < group.requests; ++r) {
        if (!reads_once(work.attention, starts[r + 1] - starts[r])) continue;
        const std::int64_t length = group.seq_lens[r], seen = m.window ? std::min(length, m.window + m.sink_tokens) : length;
        partitions += (seen + kPartition - 1) / kPartition;
    }
    work.size_reads(kv_heads_, partitions, threads);
    for (std::int64_t r = 0; r < group.requests; ++r) {
        const std::int64_t length = group.seq_lens[r], queries = starts[r + 1] - starts[r];
        if (starts[r] < 0 || starts[r + 1] > tokens || queries > length || length > group.table_blocks * block_tokens_) {
            throw std::invalid_argument("request " + std::to_string(r) + " has " + std::to_string(queries) + " queries, " +
                                        std::to_string(length) + " tokens and " + std::to_string(group.table_blocks) +
                                        " blocks of " + std::to_string(block_tokens_));
        }
        work.add_tiles(kv_heads_, group.block_tables + r * group.table_stride, 0, length, starts[r], queries);
    }
    work.run(threads);
}

void attend_sequences(const HeadRows &q, const HeadRows &k, const HeadRows &v, std::int64_t heads, std::int64_t kv_heads,
                      std::int64_t head_dim, const std::int32_t *seq_start, std::int64_t sequences, const Masking &m,
                      float *out, int threads, const Variant &variant) {
    const auto region = [](const HeadRows &rows) {
        auto *const data = reinterpret_cast<std::uint8_t *>(const_cast<float *>(rows.data));
        return Region{Element::f32, data, rows.head_stride * 4, rows.token_stride * 4, nullptr, 0, 0};
    };
    Work work(variant, {region(k), region(v), kKeyTile, head_dim, heads / kv_heads, q.data, q.token_stride, q.head_stride,
                        out, heads * head_dim, m.scale, m.causal, m.window, m.sink_tokens, m.sinks, m.softcap, m.bias,
                        m.bias_head_stride, m.bias_query_stride});
    work.size_tiles(seq_start[sequences] * heads, threads);
    for (std::int64_t s = 0; s < sequences; ++s) {
        const std::int64_t length = seq_start[s + 1] - seq_start[s];
        work.add_tiles(kv_heads, nullptr, seq_start[s], length, seq_start[s], length);
    }
    work.run(threads);
}

}  // namespace antiphon
