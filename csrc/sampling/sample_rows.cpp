// Thresholds of top-k, top-p and min-p, and sampling split over rows or partitions.

#include "sampling/sample_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/thread_pool.h"
#include "base/workspace.h"
#include "sampling/kernels.h"

namespace antiphon {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kNucleusGroups = 256;  // groups whose tokens are tried for top-p before the whole vocabulary
constexpr Threshold kKeepAll{-kInfinity, std::numeric_limits<std::int64_t>::max()};

struct Candidate {
    float scaled;
    std::int64_t token;
    bool operator<(const Candidate &other) const {
        return scaled > other.scaled || (scaled == other.scaled && token < other.token);
    }
};

Threshold stricter(Threshold a, Threshold b) {
    return Candidate{a.scaled, a.token} < Candidate{b.scaled, b.token} ? a : b;
}

struct RowOptions {
    std::int64_t top_k;
    float top_p, min_p;
};

// State of one row, which is surveyed by partitions, gets a threshold, and is sampled by partitions.
struct Row {
    LogitRow logits;
    RowOptions options;
    float *maxima;      // by group
    Survey *surveys;    // by partition
    Draw *draws;        // by partition
    float top = 0;      // largest logit
    double total = 0;   // sum of e^(logit - top)
    double scaled_total = 0;
    std::int64_t top_token = 0;
    Threshold threshold = kKeepAll;
    bool wants_logprob = true;

    bool random() const { return logits.temperature > 0; }
    bool needs_total() const {
        return wants_logprob || (random() && options.top_p < 1 && !limits_count() && logits.temperature == 1);
    }
    bool needs_scaled_total() const {
        return random() && options.top_p < 1 && !limits_count() && logits.temperature != 1;
    }
    bool limits_count() const { return options.top_k > 0 && options.top_k < logits.vocabulary; }
    std::int64_t partitions() const { return (logits.vocabulary + kVocabularyPartition - 1) / kVocabularyPartition; }
    std::int64_t groups() const { return (logits.vocabulary + kVocabularyGroup - 1) / kVocabularyGroup; }
    float scaled(std::int64_t token) const { return logits.logits[token] / logits.temperature; }

    void survey(const SamplingKernels &kernels, std::int64_t partition) {
        const std::int64_t begin = partition * kVocabularyPartition;
        const std::int64_t end = std::min(begin + kVocabularyPartition, logits.vocabulary);
        surveys[partition] = kernels.survey(logits, begin, end, needs_total(), needs_scaled_total(), maxima);
    }

    void draw(const SamplingKernels &kernels, std::int64_t partition) {
        const std::int64_t begin = partition * kVocabularyPartition;
        const std::int64_t end = std::min(begin + kVocabularyPartition, logits.vocabulary);
        draws[partition] = kernels.draw(logits, begin, end, threshold, maxima, top_token);
    }

    void choose(const SamplingKernels &kernels) {
        top = -kInfinity;
        for (std::int64_t p = 0; p < partitions(); ++p) {
            if (surveys[p].top > top) {
                top = surveys[p].top;
                top_token = surveys[p].top_token;
            }
        }
        for (std::int64_t p = 0; p < partitions(); ++p) {
            if (surveys[p].top == -kInfinity) continue;
            total += surveys[p].total * std::exp(double(surveys[p].top) - top);
            if (needs_scaled_total()) {
                scaled_total += surveys[p].scaled_total * std::exp((double(surveys[p].top) - top) / logits.temperature);
            }
        }
        if (random() && top > -kInfinity && top < kInfinity) threshold = find_threshold(kernels);
    }

    Threshold find_threshold(const SamplingKernels &kernels) const {
        if (limits_count()) return limit_count();
        Threshold found = kKeepAll;
        if (options.min_p > 0) {
            const float least = scaled(top_token) + std::min(0.0f, std::log(options.min_p));
            found = {least, kKeepAll.token};
        }
        return options.top_p < 1 ? stricter(found, nucleus(kernels)) : found;
    }

    // Collects all tokens at least as large as the `count`-th largest maximum of a group: at least `count` tokens.
    std::vector<Candidate> &candidates(std::int64_t count) const {
        thread_local std::vector<float> order;
        thread_local std::vector<Candidate> found;
        float least = -kInfinity;
        if (count <= groups()) {
            order.assign(maxima, maxima + groups());
            std::nth_element(order.begin(), order.begin() + (count - 1), order.end(), std::greater<float>());
            least = order[count - 1] / logits.temperature;
        }
        found.clear();
        for (std::int64_t g = 0; g < groups(); ++g) {
            if (maxima[g] / logits.temperature < least) continue;
            const std::int64_t end = std::min((g + 1) * kVocabularyGroup, logits.vocabulary);
            for (std::int64_t token = g * kVocabularyGroup; token < end; ++token) {
                const float value = scaled(token);
                if (value >= least) found.push_back({value, token});
            }
        }
        return found;
    }

    // Threshold of top-k, then of top-p and min-p among the tokens that top-k keeps.
    Threshold limit_count() const {
        std::vector<Candidate> &found = candidates(options.top_k);
        const std::int64_t count = std::min<std::int64_t>(options.top_k, found.size());
        const auto last = found.begin() + (count - 1);
        std::nth_element(found.begin(), last, found.end());
        if (options.top_p >= 1 && options.min_p <= 0) return {last->scaled, last->token};
        std::sort(found.begin(), last + 1);
        const auto weight = [&](const Candidate &candidate) { return std::exp(double(candidate.scaled) - found[0].scaled); };
        double sum = 0, before = 0;
        for (auto it = found.begin(); it <= last; ++it) sum += weight(*it);
        std::int64_t kept = 0;
        for (std::int64_t i = 0; i < count; ++i) {
            const double own = weight(found[i]);
            if (i > 0 && (before >= options.top_p * sum || own < options.min_p)) break;
            before += own;
            kept = i;
        }
        return {found[kept].scaled, found[kept].token};
    }

    // Threshold of top-p over the whole vocabulary.
    Threshold nucleus(const SamplingKernels &kernels) const {
        const float scaled_top = scaled(top_token);
        const double wanted = options.top_p * (needs_scaled_total() ? scaled_total : total);
        // Returns the last kept token of `sorted`; `before` is the sum of all tokens that precede these.
        const auto last_kept = [&](std::vector<Candidate> &sorted, double before, bool &reached) {
            std::sort(sorted.begin(), sorted.end());
            std::size_t kept = 0;
            reached = false;
            for (std::size_t i = 0; i < sorted.size() && !reached; ++i) {
                kept = i;
                before += std::exp(double(sorted[i].scaled) - scaled_top);
                reached = before >= wanted;
            }
            return Threshold{sorted[kept].scaled, sorted[kept].token};
        };
        bool reached;
        const Threshold near = last_kept(candidates(std::min(kNucleusGroups, groups())), 0, reached);
        if (reached) return near;

        thread_local std::vector<double> masses(kBins);
        thread_local std::vector<std::int32_t> tokens;
        thread_local std::vector<Candidate> sorted;
        kernels.histogram(logits, scaled_top, masses.data());
        double before = 0;
        int bin = 0;
        for (; bin < kBins - 1 && before + masses[bin] < wanted; ++bin) before += masses[bin];
        tokens.resize(logits.vocabulary);
        const std::int64_t count = kernels.collect(logits, scaled_top, bin, tokens.data());
        if (count == 0) return kKeepAll;  // by rounding, `wanted` exceeds the sum of all bins
        sorted.clear();
        for (std::int64_t i = 0; i < count; ++i) sorted.push_back({scaled(tokens[i]), tokens[i]});
        return last_kept(sorted, before, reached);
    }

    std::int64_t token() const {
        Draw best{-kInfinity, top_token};
        if (random()) {
            for (std::int64_t p = 0; p < partitions(); ++p) {
                if (draws[p].value > best.value) best = draws[p];
            }
        }
        return best.token;
    }
};

struct Work {
    const SamplingKernels *kernels;
    std::vector<Row> &rows;
    std::int64_t partitions;

    static void whole_row(void *context, std::uint32_t index, int) {
        const Work &work = *static_cast<Work *>(context);
        for (std::int64_t p = 0; p < work.partitions; ++p) survey(context, std::uint32_t(index * work.partitions + p), 0);
        choose(context, index, 0);
        for (std::int64_t p = 0; p < work.partitions; ++p) draw(context, std::uint32_t(index * work.partitions + p), 0);
    }
    static void survey(void *context, std::uint32_t index, int) {
        Work &work = *static_cast<Work *>(context);
        work.rows[index / work.partitions].survey(*work.kernels, index % work.partitions);
    }
    static void choose(void *context, std::uint32_t index, int) {
        Work &work = *static_cast<Work *>(context);
        work.rows[index].choose(*work.kernels);
    }
    static void draw(void *context, std::uint32_t index, int) {
        Work &work = *static_cast<Work *>(context);
        Row &row = work.rows[index / work.partitions];
        if (row.random()) row.draw(*work.kernels, index % work.partitions);
    }
};

}  // namespace

void sample_rows(const float *logits, std::int64_t stride, std::int64_t count, std::int64_t vocabulary,
                 const SamplingColumns &columns, const RowChoice &choice, std::int64_t *tokens, float *logprobs,
                 int threads, const Variant &variant) {
    if (count <= 0 || vocabulary <= 0) return;
    const std::int64_t partitions = (vocabulary + kVocabularyPartition - 1) / kVocabularyPartition;
    const std::int64_t groups = partitions * (kVocabularyPartition / kVocabularyGroup);
    char *memory = workspace(count * (partitions * (sizeof(Survey) + sizeof(Draw)) + groups * sizeof(float)));
    Survey *surveys = reinterpret_cast<Survey *>(memory);
    Draw *draws = reinterpret_cast<Draw *>(surveys + count * partitions);
    float *maxima = reinterpret_cast<float *>(draws + count * partitions);

    thread_local std::vector<Row> rows;
    rows.clear();
    for (std::int64_t r = 0; r < count; ++r) {
        const std::int64_t own = choice.entries ? choice.entries[r] : r;
        const std::int64_t index = columns.index[own] + (choice.ahead ? choice.ahead[r] : 0);
        const LogitRow row{logits + r * stride, vocabulary, columns.temperature[own], std::uint64_t(columns.seed[own]),
                           std::uint64_t(index)};
        const RowOptions options{columns.top_k[own], columns.top_p[own], columns.min_p[own]};
        rows.push_back({row, options, maxima + r * groups, surveys + r * partitions, draws + r * partitions});
        rows.back().wants_logprob = logprobs != nullptr;
    }
    Work work{variant.sampling, rows, partitions};
    if (count >= threads) {
        run_tasks(std::uint32_t(count), threads, Work::whole_row, &work);
    } else {
        run_tasks(std::uint32_t(count * partitions), threads, Work::survey, &work);
        run_tasks(std::uint32_t(count), threads, Work::choose, &work);
        run_tasks(std::uint32_t(count * partitions), threads, Work::draw, &work);
    }
    for (std::int64_t r = 0; r < count; ++r) {
        const Row &row = rows[r];
        tokens[r] = row.token();
        if (logprobs) logprobs[r] = float(double(row.logits.logits[tokens[r]]) - row.top - std::log(row.total));
    }
}

}  // namespace antiphon
