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

void DecodeStep::gather(const std::vector<std::int64_t> &rows, const std::vector<std::int64_t> &positions) {
    const std::int64_t count = std::int64_t(rows.size());
    token_ids_.resize(count);
    positions_.resize(count);
    query_start_.resize(count + 1);
    logit_rows_.resize(count);
    query_start_[0] = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        token_ids_[i] = rows_.last_token[rows[i]];
        positions_[i] = std::int32_t(positions[i]);
        query_start_[i + 1] = std::int32_t(i + 1);
        logit_rows_[i] = i;
    }
    if (rows_.adapter) {
        adapters_.resize(count);
        for (std::int64_t i = 0; i < count; ++i) adapters_[i] = rows_.adapter[rows[i]];
    }
    groups_.resize(rows_.groups.size());
    tables_.clear();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        const RowTables &from = rows_.groups[g];
        Group &to = groups_[g];
        to.slots.resize(from.cross ? 0 : count);
        to.lengths.resize(count);
        std::int64_t blocks = 0;
        for (std::int64_t i = 0; i < count; ++i) {
            to.lengths[i] = from.cross ? rows_.cross_tokens[rows[i]] : positions_[i] + 1;
            blocks = std::max(blocks, (to.lengths[i] + from.block_tokens - 1) / from.block_tokens);
        }
        if (blocks > from.stride) {
            throw std::invalid_argument("a request has " + std::to_string(blocks) + " blocks, and its table " +
                                        std::to_string(from.stride) + " entries");
        }
        to.tables.resize(count * blocks);
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int32_t *const table = from.tables + rows[i] * from.stride;
            std::memcpy(to.tables.data() + i * blocks, table, blocks * sizeof(std::int32_t));
            if (!from.cross) {
                to.slots[i] = table[positions[i] / from.block_tokens] * from.block_tokens + positions[i] % from.block_tokens;
            }
        }
        tables_.push_back({to.slots.data(), std::int64_t(to.slots.size()), to.tables.data(), blocks, blocks,
                           to.lengths.data(), query_start_.data(), count});
    }
    symbols_.assign(num_symbols_, count);  // one token and one row of logits for each request
}

DecodeStep::Result DecodeStep::run(const std::vector<std::int64_t> &rows, const std::vector<std::int64_t> &positions,
                                   float *logits, std::int64_t vocabulary, int threads, const Variant &variant) {
    gather(rows, positions);
    addresses_.assign({address(token_ids_.data()), address(positions_.data()), address(query_start_.data()),
                       address(logit_rows_.data())});
    if (rows_.adapter) addresses_.push_back(address(adapters_.data()));
    addresses_.push_back(address(logits));
    Result result{std::vector<std::int64_t>(rows.size()), program_.run(symbols_, addresses_, tables_, threads, variant), 0};
    const auto ran = std::chrono::steady_clock::now();
    sample_rows(logits, logit_width_, std::int64_t(rows.size()), vocabulary, rows_.sampling, rows.data(),
                result.tokens.data(), nullptr, threads, variant);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        rows_.last_token[rows[i]] = std::int32_t(result.tokens[i]);
        rows_.output_index[rows[i]] += 1;
    }
    const auto taken = std::chrono::steady_clock::now() - ran;
    result.sample_nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count();
    return result;
}

}  // namespace antiphon
