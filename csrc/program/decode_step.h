// A step in which every request computes its newest token and those of its draft, from rows to tokens in one call: the
// inputs are assembled from the requests' rows, the program runs, and tokens are sampled and written back to the rows.

#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "sampling/sample_rows.h"

namespace antiphon {

// A cache group's block tables by row.
struct RowTables {
    const std::int32_t *tables;
    std::int64_t stride, block_tokens;
    bool cross;  // read only: as long as the row's cross tokens
};

// Arrays over rows, which outlive the step.
struct RowArrays {
    std::int32_t *last_token;
    const std::int32_t *cross_tokens;
    SamplingColumns sampling;
    std::int64_t *output_index;  // the sampling columns' own
    const std::int32_t *adapter;  // slots, negative for none; null for a program without adapters
    std::vector<RowTables> groups;
};

class DecodeStep {
public:
    // The program's addresses are token ids, positions, query starts, logit rows, adapters where it has them, and logits
    // of `logit_width`.
    DecodeStep(Program &program, RowArrays rows, std::int64_t num_symbols, std::int64_t logit_width)
        : program_(program), rows_(std::move(rows)), num_symbols_(num_symbols), logit_width_(logit_width) {}

    // The requests of a step. The newest tokens of those in these rows stand at `positions`; tokens that may follow them
    // are in `drafts`, one after the other, `drafted` for each request. Without any draft both are empty.
    struct Requests {
        const std::vector<std::int64_t> &rows, &positions, &drafted;
        const std::vector<std::int32_t> &drafts;

        std::int64_t count() const { return std::int64_t(rows.size()); }
        std::int64_t drafted_by(std::int64_t i) const { return drafted.empty() ? 0 : drafted[i]; }
    };

    // A token is drawn after every token that is computed. A request keeps those up to the first that its draft does not
    // have.
    struct Result {
        std::vector<std::int64_t> tokens, kept;
        std::int64_t program_nanoseconds, sample_nanoseconds;
    };

    // `logits` has room for a row of every token that is computed; tokens are sampled from the first `vocabulary` columns.
    Result run(const Requests &requests, float *logits, std::int64_t vocabulary, int threads, const Variant &variant);

private:
    // The program's inputs, assembled from the rows.
    void gather(const Requests &requests);
    void gather_tables(const Requests &requests);
    // How many tokens each request keeps, which also become part of its row.
    std::vector<std::int64_t> keep(const Requests &requests, const std::vector<std::int64_t> &tokens);

    Program &program_;
    RowArrays rows_;
    std::int64_t num_symbols_, logit_width_;
    std::vector<std::int32_t> token_ids_, positions_, query_start_, adapters_;
    std::vector<std::int64_t> logit_rows_, symbols_;
    std::vector<std::int64_t> token_rows_, ahead_;  // by computed token: its request's row, its position in the draft
    std::vector<std::uintptr_t> addresses_;
    struct Group {
        std::vector<std::int64_t> slots;
        std::vector<std::int32_t> tables, lengths;
    };
    std::vector<Group> groups_;
    std::vector<GroupTables> tables_;
};

}  // namespace antiphon
