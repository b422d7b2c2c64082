#include "program/program.h"

#include <chrono>
#include <stdexcept>
#include <string>

#include "base/scratch.h"

namespace antiphon {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t area_bytes(const Area &area, const std::int64_t *symbols) {
    const Extent extent{area.bytes, area.first, area.second, 0};
    return (extent.at(symbols) + kAlignment - 1) / kAlignment * kAlignment;
}

std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::int64_t Program::workspace_bytes(const std::vector<std::int64_t> &symbols) const {
    std::int64_t total = 0;
    for (const Area &area : areas_) total += area_bytes(area, symbols.data());
    return total;
}

std::int64_t Program::run(const std::vector<std::int64_t> &symbols, const std::vector<std::uintptr_t> &addresses,
                          const std::vector<GroupTables> &groups, int threads, const Variant &variant) {
    if (addresses.size() != num_addresses_) {
        throw std::invalid_argument("the program needs " + std::to_string(num_addresses_) + " addresses, not " +
                                    std::to_string(addresses.size()));
    }
    const std::int64_t started = now();
    thread_local Scratch scratch;
    thread_local std::vector<char *> values, bases;
    char *base = scratch.reserve(workspace_bytes(symbols));
    bases.clear();
    for (const Area &area : areas_) {
        bases.push_back(base);
        base += area_bytes(area, symbols.data());
    }
    values.clear();
    for (const std::uintptr_t address : addresses) values.push_back(reinterpret_cast<char *>(address));
    for (const Buffer &buffer : buffers_) {
        const Area &area = areas_[buffer.area];
        values.push_back(bases[buffer.area] + Extent{buffer.offset, area.first, area.second, 0}.at(symbols.data()));
    }
    for (const std::uintptr_t constant : constants_) values.push_back(reinterpret_cast<char *>(constant));

    const Frame frame{symbols.data(), values.data(), groups.data(), threads, &variant};
    if (profiling_) {
        run_profiled(frame);
    } else {
        for (const auto &instruction : instructions_) instruction->run(frame);
    }
    return now() - started;
}

void Program::run_profiled(const Frame &frame) {
    const std::lock_guard<std::mutex> lock(profile_lock_);
    std::int64_t begun = now();
    for (std::size_t i = 0; i < instructions_.size(); ++i) {
        instructions_[i]->run(frame);
        const std::int64_t done = now();
        const Effort effort = instructions_[i]->effort(frame);
        Profile &profile = profiles_[i];
        profile.calls += 1;
        profile.nanoseconds += done - begun;
        profile.effort.rows += effort.rows;
        profile.effort.pairs += effort.pairs;
        profile.effort.keys += effort.keys;
        begun = now();
    }
}

std::vector<Profile> Program::profiles() const {
    const std::lock_guard<std::mutex> lock(profile_lock_);
    return profiles_;
}

}  // namespace antiphon
