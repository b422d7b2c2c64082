// Sampling for Python.

#include "sampling/sample_rows.h"

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
    sample_rows(at<const float>(logits), stride, count, vocabulary, columns, nullptr, at<std::int64_t>(tokens),
                at<float>(logprobs), threads, variant_at(variant));
}

}  // namespace

void bind_sampling(nb::module_ &module) {
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    module.def("sample", &sample, Unlocked(), "A token and, unless its address is 0, a log-probability for every row of logits.");
}

}  // namespace antiphon
