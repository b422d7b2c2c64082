// Attention for Python: the work cut into tiles and shared out over threads.

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "bind.h"
#include "thread_pool.h"

namespace nb = nanobind;

namespace antiphon {
namespace {

constexpr std::int64_t kFewestRows = 16, kMostRows = 64;              // of a tile
constexpr std::size_t kMostPartialBytes = std::size_t(64) << 20;  // more than this is not worth a split by keys

// A tile's partitions, or what `join` makes of them.
struct Piece {
    std::int64_t tile, partition;
};

struct Work {
    const AttentionKernels *kernels;
    Attention attention;
    std::vector<AttentionTile> tiles;
    std::int64_t target_rows = kMostRows;
    std::int64_t scratch_floats = 0;
    float *scratch = nullptr;
    // For a split by keys: the pieces of all tiles in order, the first piece of each tile, and the pieces' results.
    std::vector<Piece> pieces;
    std::vector<std::int64_t> first_piece;
    float *partials = nullptr;
    std::int64_t piece_floats = 0;

    // Large tiles read keys and values seldom; smaller ones where there would be too few for the threads.
    void size_tiles(std::int64_t rows, int threads) {
        target_rows = std::clamp(rows / (4 * std::max(threads, 1)), kFewestRows, kMostRows);
    }

    void add_tiles(std::int64_t kv_heads, const std::int32_t *block_table, std::int64_t first_key, std::int64_t length,
                   std::int64_t first_query, std::int64_t num_queries) {
        const std::int64_t step = std::max<std::int64_t>(1, target_rows / attention.heads_per_kv_head);
        for (std::int64_t begin = 0; begin < num_queries; begin += step) {
            const std::int64_t count = std::min(step, num_queries - begin);
            for (std::int64_t head = 0; head < kv_heads; ++head) {
                tiles.push_back({block_table, first_key, length, first_query + begin, count, length - num_queries + begin, head});
            }
            const std::int64_t rows = count * attention.heads_per_kv_head;
            scratch_floats = std::max(scratch_floats, (attention_scratch_floats(rows, attention.head_dim) + 15) / 16 * 16);
            piece_floats = std::max(piece_floats, rows * partial_floats(attention.head_dim));
        }
    }

    // Few tiles for the threads: their partitions become pieces of work.
    bool split(int threads) {
        if (threads <= 1 || std::int64_t(tiles.size()) >= 2 * threads) return false;
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

// One layer's pages: what `LayerCache` says, resolved to addresses.
class Pages {
public:
    Pages(std::uintptr_t arena, std::int64_t kv_heads, std::int64_t block_tokens, std::int64_t head_dim, int key_element,
          int value_element, std::int64_t key_offset, std::int64_t value_offset, std::int64_t key_scale_offset,
          std::int64_t value_scale_offset, std::uintptr_t key_balance)
        : kv_heads_(kv_heads), block_tokens_(block_tokens), head_dim_(head_dim) {
        std::uint8_t *base = at<std::uint8_t>(arena);
        const auto region = [&](int element, std::int64_t offset, std::int64_t scale_offset) {
            const std::int64_t token = head_dim * element_bytes(Element(element));
            const std::int64_t scale = head_dim / kScaleChannels * 2;
            return Region{Element(element), base + offset, block_tokens * token, token, base + scale_offset,
                          block_tokens * scale, scale};
        };
        keys_ = region(key_element, key_offset, key_scale_offset);
        keys_.balance = at<const float>(key_balance);
        values_ = region(value_element, value_offset, value_scale_offset);
    }

    void store(std::uintptr_t k, std::int64_t k_token_stride, std::int64_t k_head_stride, std::uintptr_t v,
               std::int64_t v_token_stride, std::int64_t v_head_stride, std::uintptr_t slots, std::int64_t tokens,
               int threads, std::size_t variant) const {
        const Writing writing{this, variant_at(variant).attention, at<const float>(k), k_token_stride, k_head_stride,
                              at<const float>(v), v_token_stride, v_head_stride, at<const std::int64_t>(slots), tokens};
        const std::int64_t tasks = (tokens + Writing::kTokens - 1) / Writing::kTokens;
        run_tasks(std::uint32_t(tasks), threads, Writing::run, const_cast<Writing *>(&writing));
    }

    void attend(std::uintptr_t q, std::int64_t q_token_stride, std::int64_t q_head_stride, std::int64_t tokens,
                std::int64_t heads, std::uintptr_t block_tables, std::int64_t table_stride, std::int64_t table_blocks,
                std::uintptr_t seq_lens, std::uintptr_t query_start, std::int64_t requests, double scale, bool causal, std::int64_t window, std::int64_t sink_tokens,
                std::uintptr_t sinks, double softcap, std::uintptr_t bias, std::int64_t bias_head_stride,
                std::int64_t bias_query_stride, std::uintptr_t out, int threads, std::size_t variant) const {
        Work work{variant_at(variant).attention,
                  {keys_, values_, block_tokens_, head_dim_, heads / kv_heads_, at<const float>(q), q_token_stride,
                   q_head_stride, at<float>(out), heads * head_dim_, float(scale), causal, window, sink_tokens,
                   at<const float>(sinks), float(softcap), at<const float>(bias), bias_head_stride, bias_query_stride}};
        const std::int32_t *starts = at<const std::int32_t>(query_start);
        work.size_tiles(tokens * heads, threads);
        for (std::int64_t r = 0; r < requests; ++r) {
            const std::int64_t length = at<const std::int32_t>(seq_lens)[r], queries = starts[r + 1] - starts[r];
            if (starts[r] < 0 || starts[r + 1] > tokens || queries > length || length > table_blocks * block_tokens_) {
                throw std::invalid_argument("request " + std::to_string(r) + " has " + std::to_string(queries) +
                                            " queries, " + std::to_string(length) + " tokens and " +
                                            std::to_string(table_blocks) + " blocks of " + std::to_string(block_tokens_));
            }
            work.add_tiles(kv_heads_, at<const std::int32_t>(block_tables) + r * table_stride, 0, length, starts[r], queries);
        }
        work.run(threads);
    }

private:
    struct Writing {
        static constexpr std::int64_t kTokens = 64;  // of a task
        const Pages *pages;
        const AttentionKernels *kernels;
        const float *k;
        std::int64_t k_token_stride, k_head_stride;
        const float *v;
        std::int64_t v_token_stride, v_head_stride;
        const std::int64_t *slots;
        std::int64_t tokens;

        static void run(void *context, std::uint32_t index, int) {
            const Writing &w = *static_cast<const Writing *>(context);
            const Pages &p = *w.pages;
            const std::int64_t end = std::min<std::int64_t>((index + 1) * kTokens, w.tokens);
            for (std::int64_t t = index * kTokens; t < end; ++t) {
                if (w.slots[t] < 0) continue;
                const std::int64_t block = w.slots[t] / p.block_tokens_ * kOffsetUnit, token = w.slots[t] % p.block_tokens_;
                for (std::int64_t head = 0; head < p.kv_heads_; ++head) {
                    w.kernels->store(p.keys_, p.head_dim_, block, head, token,
                                     w.k + t * w.k_token_stride + head * w.k_head_stride);
                    w.kernels->store(p.values_, p.head_dim_, block, head, token,
                                     w.v + t * w.v_token_stride + head * w.v_head_stride);
                }
            }
        }
    };

    Region keys_, values_;
    std::int64_t kv_heads_, block_tokens_, head_dim_;
};

// Strides are those of q, k and v, by token and by head, in floats.
void attention(std::uintptr_t q, std::int64_t q_token_stride, std::int64_t q_head_stride, std::uintptr_t k,
               std::int64_t k_token_stride, std::int64_t k_head_stride, std::uintptr_t v, std::int64_t v_token_stride,
               std::int64_t v_head_stride, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
               std::uintptr_t seq_start, std::int64_t sequences, double scale, bool causal, std::uintptr_t bias,
               std::int64_t bias_head_stride, std::int64_t bias_query_stride, std::uintptr_t out, int threads,
               std::size_t variant) {
    const auto region = [](std::uintptr_t data, std::int64_t token_stride, std::int64_t head_stride) {
        return Region{Element::f32, at<std::uint8_t>(data), head_stride * 4, token_stride * 4, nullptr, 0, 0};
    };
    Work work{variant_at(variant).attention,
              {region(k, k_token_stride, k_head_stride), region(v, v_token_stride, v_head_stride), kKeyTile, head_dim,
               heads / kv_heads, at<const float>(q), q_token_stride, q_head_stride, at<float>(out), heads * head_dim,
               float(scale), causal, 0, 0, nullptr, 0, at<const float>(bias), bias_head_stride, bias_query_stride}};
    const std::int32_t *starts = at<const std::int32_t>(seq_start);
    work.size_tiles(starts[sequences] * heads, threads);
    for (std::int64_t s = 0; s < sequences; ++s) {
        const std::int64_t length = starts[s + 1] - starts[s];
        work.add_tiles(kv_heads, nullptr, starts[s], length, starts[s], length);
    }
    work.run(threads);
}

}  // namespace

void bind_attention(nb::module_ &module) {
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    nb::class_<Pages>(module, "Pages", "One layer's pages, whose arena must outlive it.")
        .def(nb::init<std::uintptr_t, std::int64_t, std::int64_t, std::int64_t, int, int, std::int64_t, std::int64_t,
                      std::int64_t, std::int64_t, std::uintptr_t>(),
             "arena: address, kv_heads, block_tokens, head_dim, then for keys and values the element type (0 f32, 1 f16, "
             "2 bf16, 3 int8), the offset of the region in a block and that of its scales; at "
             "last the address of what int8 keys are divided by, or 0.")
        .def("store", &Pages::store, Unlocked(), "Write k, v [tokens, kv_heads, head_dim] to int64 slots.")
        .def("attend", &Pages::attend, Unlocked(), "Attention of q [tokens, heads, head_dim] over the pages.");
    module.def("attention", &attention, Unlocked(), "Attention over sequences laid end to end.");
}

}  // namespace antiphon
