#include "program/decode_step.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>

namespace antiphon {
namespace {

std::uintptr_t address(const void *data) { return reinterpret_cast<std::uintptr_t>(data); }

}  // namespace

void DecodeStep::gather(const Requests &requests) {
    const std::int64_t count = requests.count(), tokens = count + std::int64_t(requests.drafts.size());
    token_ids_.resize(tokens);
    positions_.resize(tokens);
    token_rows_.resize(tokens);
    ahead_.resize(tokens);
    logit_rows_.resize(tokens);
    query_start_.resize(count + 1);
    query_start_[0] = 0;
    const std::int32_t *draft = requests.drafts.data();
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t j = 0; j <= requests.drafted_by(i); ++j, ++at) {
            token_ids_[at] = j ? *draft++ : rows_.last_token[requests.rows[i]];
            positions_[at] = std::int32_t(requests.positions[i] + j);
            token_rows_[at] = requests.rows[i];
            ahead_[at] = j;
            logit_rows_[at] = at;
        }
        query_start_[i + 1] = std::int32_t(at);
    }
    if (rows_.adapter) {
        adapters_.resize(tokens);
        for (std::int64_t t = 0; t < tokens; ++t) adapters_[t] = rows_.adapter[token_rows_[t]];
    }
    gather_tables(requests);
    symbols_.assign(num_symbols_, tokens);  // numbers of tokens and of rows of logits
}

void DecodeStep::gather_tables(const Requests &requests) {
    const std::int64_t count = requests.count();
    groups_.resize(rows_.groups.size());
    tables_.clear();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        const RowTables &from = rows_.groups[g];
        Group &to = groups_[g];
        to.lengths.resize(count);
        std::int64_t blocks = 0;
        for (std::int64_t i = 0; i < count; ++i) {
            to.lengths[i] = from.cross ? rows_.cross_tokens[requests.rows[i]] : positions_[query_start_[i + 1] - 1] + 1;
            blocks = std::max(blocks, (to.lengths[i] + from.block_tokens - 1) / from.block_tokens);
        }
        if (blocks > from.stride) {
            throw std::invalid_argument("a request has " + std::to_string(blocks) + " blocks, and its table " +
                                        std::to_string(from.stride) + " entries");
        }
        to.tables.resize(count * blocks);
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int32_t *const table = from.tables + requests.rows[i] * from.stride;
            std::memcpy(to.tables.data() + i * blocks, table, blocks * sizeof(std::int32_t));
        }
        to.slots.resize(from.cross ? 0 : positions_.size());
        for (std::size_t t = 0; t < to.slots.size(); ++t) {
            const std::int32_t *const table = from.tables + token_rows_[t] * from.stride;
            to.slots[t] = table[positions_[t] / from.block_tokens] * from.block_tokens + positions_[t] % from.block_tokens;
        }
        tables_.push_back({to.slots.data(), std::int64_t(to.slots.size()), to.tables.data(), blocks, blocks,
                           to.lengths.data(), query_start_.data(), count});
    }
}

std::vector<std::int64_t> DecodeStep::keep(const Requests &requests, const std::vector<std::int64_t> &tokens) {
    std::vector<std::int64_t> kept(requests.count());
    for (std::int64_t i = 0; i < requests.count(); ++i) {
        std::int64_t last = query_start_[i];
        while (last + 1 < query_start_[i + 1] && tokens[last] == token_ids_[last + 1]) ++last;
        kept[i] = last - query_start_[i] + 1;
        rows_.last_token[requests.rows[i]] = std::int32_t(tokens[last]);
        rows_.output_index[requests.rows[i]] += kept[i];
    }
    return kept;
}

DecodeStep::Result DecodeStep::run(const Requests &requests, float *logits, std::int64_t vocabulary, int threads,
                                   const Variant &variant) {
    gather(requests);
    addresses_.assign({address(token_ids_.data()), address(positions_.data()), address(query_start_.data()),
                       address(logit_rows_.data())});
    if (rows_.adapter) addresses_.push_back(address(adapters_.data()));
    addresses_.push_back(address(logits));
    const std::int64_t program_nanoseconds = program_.run(symbols_, addresses_, tables_, threads, variant);
    const auto ran = std::chrono::steady_clock::now();
    std::vector<std::int64_t> tokens(token_ids_.size());
    sample_rows(logits, logit_width_, std::int64_t(tokens.size()), vocabulary, rows_.sampling,
                {token_rows_.data(), ahead_.data()}, tokens.data(), nullptr, threads, variant);
    std::vector<std::int64_t> kept = keep(requests, tokens);
    const auto taken = std::chrono::steady_clock::now() - ran;
    return {std::move(tokens), std::move(kept), program_nanoseconds,
            std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count()};
}

}  // namespace antiphon
