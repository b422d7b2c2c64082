// A step in which every request computes one token, from rows to tokens in one call: the inputs are assembled from
// the requests' rows, the program runs, and tokens are sampled and written back to the rows.

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

    struct Result {
        std::vector<std::int64_t> tokens;
        std::int64_t program_nanoseconds, sample_nanoseconds;
    };

    // The next tokens of the requests in these rows, whose newest tokens stand at `positions`. `logits` has room for a
    // row of each request; tokens are sampled from the first `vocabulary` columns.
    Result run(const std::vector<std::int64_t> &rows, const std::vector<std::int64_t> &positions, float *logits,
               std::int64_t vocabulary, int threads, const Variant &variant);

private:
    // The program's inputs, assembled from the rows.
    void gather(const std::vector<std::int64_t> &rows, const std::vector<std::int64_t> &positions);

    Program &program_;
    RowArrays rows_;
    std::int64_t num_symbols_, logit_width_;
    std::vector<std::int32_t> token_ids_, positions_, query_start_, adapters_;
    std::vector<std::int64_t> logit_rows_, symbols_;
    std::vector<std::uintptr_t> addresses_;
    struct Group {
        std::vector<std::int64_t> slots;
        std::vector<std::int32_t> tables, lengths;
    };
    std::vector<Group> groups_;
    std::vector<GroupTables> tables_;
};

}  // namespace antiphon
