// Sampling for Python.

#include "sampling/edit_rows.h"
#include "sampling/sample_rows.h"

#include <nanobind/stl/tuple.h>

#include "bind/bind.h"

namespace nb = nanobind;

namespace antiphon {
namespace {

void sample(std::uintptr_t logits, std::int64_t stride, std::int64_t count, std::int64_t vocabulary,
            std::uintptr_t temperature, std::uintptr_t top_k, std::uintptr_t top_p, std::uintptr_t min_p,
            std::uintptr_t seed, std::uintptr_t index, std::uintptr_t tokens, std::uintptr_t logprobs, int threads,
            std::size_t variant) {
    const SamplingColumns columns{at<const float>(temperature), at<const std::int32_t>(top_k), at<const float>(top_p),
                                  at<const float>(min_p), at<const std::int64_t>(seed), at<const std::int64_t>(index)};
    sample_rows(at<const float>(logits), stride, count, vocabulary, columns, {}, at<std::int64_t>(tokens),
                at<float>(logprobs), threads, variant_at(variant));
}

// Addresses of row starts, ids and values; 0 for a missing array.
using ListAddresses = std::tuple<std::uintptr_t, std::uintptr_t, std::uintptr_t>;
TokenLists lists_at(const ListAddresses &addresses) {
    const auto [row_start, ids, values] = addresses;
    return {at<const std::int32_t>(row_start), at<const std::int32_t>(ids), at<const float>(values)};
}

// Addresses of ids, counts and numbers of ids, and the capacity of a slot.
using CountAddresses = std::tuple<std::uintptr_t, std::uintptr_t, std::uintptr_t, std::int64_t>;
TokenCounts counts_at(const CountAddresses &addresses) {
    const auto [ids, counts, num_ids, capacity] = addresses;
    return {at<std::int32_t>(ids), at<std::int32_t>(counts), at<std::int32_t>(num_ids), capacity};
}

void edit_logits(std::uintptr_t logits, std::int64_t stride, std::int64_t count, std::int64_t vocabulary,
                 std::uintptr_t masks, std::uintptr_t mask_index, std::int64_t mask_bytes, const ListAddresses &allowed,
                 const ListAddresses &banned, std::uintptr_t spans, const ListAddresses &bias, std::uintptr_t penalties,
                 std::uintptr_t slots, const CountAddresses &counts, int threads, std::size_t variant) {
    const LogitEdits edits{at<const std::uint8_t>(masks), at<const std::int32_t>(mask_index), mask_bytes, lists_at(allowed),
                           lists_at(banned), at<const std::int32_t>(spans), lists_at(bias), at<const float>(penalties),
                           at<const std::int32_t>(slots), counts_at(counts)};
    edit_rows(at<float>(logits), stride, count, vocabulary, edits, threads, variant_at(variant));
}

void count(const CountAddresses &counts, std::uintptr_t slots, std::uintptr_t tokens, std::int64_t num_rows) {
    count_tokens(counts_at(counts), at<const std::int32_t>(slots), at<const std::int64_t>(tokens), num_rows);
}

}  // namespace

void bind_sampling(nb::module_ &module) {
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    module.def("sample", &sample, Unlocked(), "Sample a token for every row of logits, with its log-probability unless that address is 0.");
    module.def("edit_logits", &edit_logits, Unlocked(), "Edit every row of logits in place.");
    module.def("count_tokens", &count, Unlocked(), "Count a token for each row's slot.");
}

}  // namespace antiphon
