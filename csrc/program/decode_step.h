// Step in which every request computes its newest token and its draft, from rows to tokens in one call: the inputs are
// assembled from the requests' rows, the program runs, and tokens are sampled and written back to the rows.

#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "sampling/sample_rows.h"

namespace antiphon {

// Block tables of a cache group by row.
struct RowTables {
    const std::int32_t *tables;
    std::int64_t stride, block_tokens;
    bool cross;  // read only; the length is the row's `cross_tokens`
};

// Arrays over rows, which must outlive the step.
struct RowArrays {
    std::int32_t *last_token;
    const std::int32_t *cross_tokens;
    SamplingColumns sampling;
    std::int64_t *output_index;  // same memory as the sampling columns' index
    const std::int32_t *adapter;  // slots, negative without an adapter; null for a program without adapters
    std::vector<RowTables> groups;
};

class DecodeStep {
public:
    // The program's addresses must be token ids, positions, query starts, logit rows, adapters if it has any, and logits of
    // `logit_width`.
    DecodeStep(Program &program, RowArrays rows, std::int64_t num_symbols, std::int64_t logit_width)
        : program_(program), rows_(std::move(rows)), num_symbols_(num_symbols), logit_width_(logit_width) {}

    // Requests of a step: their rows, and the positions of their newest tokens. `drafts` are the drafted tokens of all
    // requests end to end, `drafted` their number by request. Without any draft both are empty.
    struct Requests {
        const std::vector<std::int64_t> &rows, &positions, &drafted;
        const std::vector<std::int32_t> &drafts;

        std::int64_t count() const { return std::int64_t(rows.size()); }
        std::int64_t drafted_by(std::int64_t i) const { return drafted.empty() ? 0 : drafted[i]; }
    };

    // Tokens sampled after every computed token, and the number that each request keeps: up to the first that differs from
    // its draft.
    struct Result {
        std::vector<std::int64_t> tokens, kept;
        std::int64_t program_nanoseconds, sample_nanoseconds;
    };

    // `logits` has room for one row per computed token; tokens are sampled from the first `vocabulary` columns.
    Result run(const Requests &requests, float *logits, std::int64_t vocabulary, int threads, const Variant &variant);

private:
    // Assembles the program's inputs from the rows.
    void gather(const Requests &requests);
    void gather_tables(const Requests &requests);
    // Writes the kept tokens to the rows, and returns their number by request.
    std::vector<std::int64_t> keep(const Requests &requests, const std::vector<std::int64_t> &tokens);

    Program &program_;
    RowArrays rows_;
    std::int64_t num_symbols_, logit_width_;
    std::vector<std::int32_t> token_ids_, positions_, query_start_, adapters_;
    std::vector<std::int64_t> logit_rows_, symbols_;
    std::vector<std::int64_t> token_rows_, ahead_;  // by computed token: its request's row, its offset from the newest token
    std::vector<std::uintptr_t> addresses_;
    struct Group {
        std::vector<std::int64_t> slots;
        std::vector<std::int32_t> tables, lengths;
    };
    std::vector<Group> groups_;
    std::vector<GroupTables> tables_;
};

}  // namespace antiphon
