// Attention for Python.

#include "encoder_attention/rounded.h"

#include "bind/bind.h"

namespace nb = nanobind;

namespace antiphon {
namespace {

void make_pages(Pages *self, std::uintptr_t arena, std::int64_t kv_heads, std::int64_t block_tokens,
                std::int64_t head_dim, int key_element, int value_element, std::int64_t key_offset,
                std::int64_t value_offset, std::int64_t key_scale_offset, std::int64_t value_scale_offset,
                std::uintptr_t key_balance) {
    new (self) Pages(at<std::uint8_t>(arena), kv_heads, block_tokens, head_dim, Element(key_element),
                     Element(value_element), key_offset, value_offset, key_scale_offset, value_scale_offset,
                     at<const float>(key_balance));
}

void store(const Pages &pages, std::uintptr_t k, std::int64_t k_token_stride, std::int64_t k_head_stride,
           std::uintptr_t v, std::int64_t v_token_stride, std::int64_t v_head_stride, std::uintptr_t slots,
           std::int64_t tokens, int threads, std::size_t variant) {
    pages.store({at<const float>(k), k_token_stride, k_head_stride}, {at<const float>(v), v_token_stride, v_head_stride},
                at<const std::int64_t>(slots), tokens, threads, variant_at(variant));
}

void attend(const Pages &pages, std::uintptr_t q, std::int64_t q_token_stride, std::int64_t q_head_stride,
            std::int64_t tokens, std::int64_t heads, std::uintptr_t block_tables, std::int64_t table_stride,
            std::int64_t table_blocks, std::uintptr_t seq_lens, std::uintptr_t query_start, std::int64_t requests,
            double scale, bool causal, std::int64_t window, std::int64_t sink_tokens, std::uintptr_t sinks,
            double softcap, std::uintptr_t bias, std::int64_t bias_head_stride, std::int64_t bias_query_stride,
            std::uintptr_t out, int threads, std::size_t variant) {
    const GroupTables group{nullptr, 0, at<const std::int32_t>(block_tables), table_stride, table_blocks,
                            at<const std::int32_t>(seq_lens), at<const std::int32_t>(query_start), requests};
    const Masking masking{float(scale), causal, window, sink_tokens, at<const float>(sinks), float(softcap),
                          at<const float>(bias), bias_head_stride, bias_query_stride};
    pages.attend({at<const float>(q), q_token_stride, q_head_stride}, tokens, heads, group, masking, at<float>(out),
                 threads, variant_at(variant));
}

// Strides of q, k and v count floats.
void attention(std::uintptr_t q, std::int64_t q_token_stride, std::int64_t q_head_stride, std::uintptr_t k,
               std::int64_t k_token_stride, std::int64_t k_head_stride, std::uintptr_t v, std::int64_t v_token_stride,
               std::int64_t v_head_stride, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
               std::uintptr_t seq_start, std::int64_t sequences, double scale, bool causal, std::uintptr_t bias,
               std::int64_t bias_head_stride, std::int64_t bias_query_stride, bool rounded, std::uintptr_t out,
               int threads, std::size_t variant) {
    const HeadRows queries{at<const float>(q), q_token_stride, q_head_stride};
    const HeadRows keys{at<const float>(k), k_token_stride, k_head_stride};
    const HeadRows values{at<const float>(v), v_token_stride, v_head_stride};
    const auto *const starts = at<const std::int32_t>(seq_start);
    if (rounded) {
        attend_rounded(queries, keys, values, heads, kv_heads, head_dim, starts, sequences, float(scale), at<float>(out),
                       threads, variant_at(variant));
        return;
    }
    const Masking masking{float(scale), causal, 0, 0, nullptr, 0, at<const float>(bias), bias_head_stride, bias_query_stride};
    attend_sequences(queries, keys, values, heads, kv_heads, head_dim, starts, sequences, masking, at<float>(out), threads,
                     variant_at(variant));
}

}  // namespace

void bind_attention(nb::module_ &module) {
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    nb::class_<Pages>(module, "Pages", "Pages of one layer. Their arena must outlive this object.")
        .def("__init__", &make_pages,
             "arena: address, kv_heads, block_tokens, head_dim, then for keys and values the element type (0 f32, 1 f16, "
             "2 bf16, 3 int8), the offset of the region in a block and that of its scales.")
        .def("store", &store, Unlocked(), "Write k, v [tokens, kv_heads, head_dim] to int64 slots.")
        .def("attend", &attend, Unlocked(), "Compute attention of q [tokens, heads, head_dim] over the pages.");
    module.def("attention", &attention, Unlocked(), "Compute attention over sequences laid end to end.");
}

}  // namespace antiphon
