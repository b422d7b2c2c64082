// Kernels of sampling: the passes over all logits. The vocabulary is split into partitions of kVocabularyPartition tokens,
// whose results are joined in ascending order, so the number of threads changes no bit.

#pragma once

#include <cstdint>

namespace antiphon {

constexpr std::int64_t kVocabularyPartition = 4096;
constexpr std::int64_t kVocabularyGroup = 64;  // tokens whose largest logit is kept; divides a partition
constexpr int kBins = 2048;                    // bins of a histogram by distance from the largest scaled logit

struct LogitRow {
    const float *logits;
    std::int64_t vocabulary;
    float temperature;  // divisor of scaled logits
    std::uint64_t seed, index;
};

// Maximum and sums of one partition: `total` sums e^(logit - top), `scaled_total` the same of scaled logits.
struct Survey {
    float top;
    std::int64_t top_token;
    float total, scaled_total;
};

// Last kept token; tokens are ordered by descending scaled logit, then by number.
struct Threshold {
    float scaled;
    std::int64_t token;
};

struct Draw {
    float value;  // scaled logit plus noise
    std::int64_t token;
};

struct TokenList {
    const std::int32_t *ids = nullptr;
    const float *values = nullptr;
    std::int64_t count = 0;
};

// Edits of one row, in the order in which they apply; null or empty without the edit.
struct RowEdits {
    float *logits;
    std::int64_t vocabulary;
    const std::uint8_t *mask = nullptr;  // one bit for each token, 1 if it is allowed
    TokenList allowed{};
    float *kept = nullptr;               // scratch for the logits of allowed tokens
    TokenList banned{};
    const std::int32_t *span = nullptr;  // keep from, until; gap from, until; first timestamp or -1
    TokenList bias{};
    const float *penalties = nullptr;    // repetition, presence, frequency
    TokenList seen{};                    // tokens that are penalised
    const std::int32_t *times = nullptr;  // number of times that each token of `seen` was sampled
};

struct SamplingKernels {
    // Surveys tokens [begin, end), a partition; `maxima` has one entry for each group of the row. Totals that are not
    // requested are 0.
    Survey (*survey)(const LogitRow &, std::int64_t begin, std::int64_t end, bool plain, bool scaled, float *maxima);
    // Returns the kept token with the largest sum of scaled logit and Gumbel noise. `likely` is any kept token.
    Draw (*draw)(const LogitRow &, std::int64_t begin, std::int64_t end, Threshold, const float *maxima, std::int64_t likely);
    // `histogram` sums e^(scaled logit - top) by bin; `collect` stores the tokens of one bin and returns their number.
    void (*histogram)(const LogitRow &, float top, double *masses);
    std::int64_t (*collect)(const LogitRow &, float top, int bin, std::int32_t *tokens);
    void (*edit)(const RowEdits &);
};

}  // namespace antiphon
