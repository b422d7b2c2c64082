// Recorded forward pass: instructions over values whose sizes are symbolic, run in one call.
//
// Values are numbered: first the addresses given to each run (inputs, then outputs), then buffers in the workspace,
// then constants. Buffers are planned when the program is recorded.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "attention/attend.h"
#include "base/variant.h"

namespace antiphon {

// coefficient · symbols[first] · symbols[second] + constant; a negative symbol counts as 1.
struct Extent {
    std::int64_t coefficient;
    int first, second;
    std::int64_t constant;

    std::int64_t at(const std::int64_t *symbols) const {
        return coefficient * (first < 0 ? 1 : symbols[first]) * (second < 0 ? 1 : symbols[second]) + constant;
    }
};

// Part of the workspace: `bytes` for each unit of symbols[first] · symbols[second].
struct Area {
    int first, second;
    std::int64_t bytes;
};

// Buffer in an area: `offset` in bytes for each unit of the area.
struct Buffer {
    int area;
    std::int64_t offset;
};

// Address within a value, as an offset in bytes.
struct Operand {
    int value = -1;  // number of the value; negative: no operand
    std::int64_t bytes = 0;
};

// Sizes and addresses of one run.
struct Frame {
    const std::int64_t *symbols;
    char *const *values;
    const GroupTables *groups;
    int threads;
    const Variant *variant;

    template <class T> T *at(const Operand &operand) const {
        return operand.value < 0 ? nullptr : reinterpret_cast<T *>(values[operand.value] + operand.bytes);
    }
};

// Work of one run of an instruction that depends on the run's sizes.
struct Effort {
    std::int64_t rows = 0;   // rows of the result
    std::int64_t pairs = 0;  // pairs of query and key
    std::int64_t keys = 0;   // keys read, of all requests
};

class Instruction {
public:
    virtual ~Instruction() = default;
    virtual void run(const Frame &frame) const = 0;
    virtual Effort effort(const Frame &frame) const = 0;
};

struct Profile {
    std::int64_t calls = 0, nanoseconds = 0;
    Effort effort;
};

class Program {
public:
    Program(std::size_t num_addresses, std::vector<Area> areas, std::vector<Buffer> buffers,
            std::vector<std::uintptr_t> constants)
        : num_addresses_(num_addresses), areas_(std::move(areas)), buffers_(std::move(buffers)),
          constants_(std::move(constants)) {}

    void append(std::unique_ptr<Instruction> instruction) {
        instructions_.push_back(std::move(instruction));
        profiles_.emplace_back();
    }

    // Runs the program and returns its nanoseconds. Several threads may run it at once: each has its own workspace.
    std::int64_t run(const std::vector<std::int64_t> &symbols, const std::vector<std::uintptr_t> &addresses,
                     const std::vector<GroupTables> &groups, int threads, const Variant &variant);

    // Returns the bytes of the workspace for the symbols' values.
    std::int64_t workspace_bytes(const std::vector<std::int64_t> &symbols) const;

    void profile(bool on) { profiling_ = on; }
    std::vector<Profile> profiles() const;

private:
    void run_profiled(const Frame &frame);

    std::size_t num_addresses_;
    std::vector<Area> areas_;
    std::vector<Buffer> buffers_;
    std::vector<std::uintptr_t> constants_;
    std::vector<std::unique_ptr<Instruction>> instructions_;
    std::atomic<bool> profiling_{false};
    mutable std::mutex profile_lock_;
    std::vector<Profile> profiles_;
};

}  // namespace antiphon
