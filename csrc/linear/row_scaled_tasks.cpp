#include "linear/row_scaled_tasks.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/scratch.h"
#include "base/thread_pool.h"
#include "linear/row_scaled.h"

namespace antiphon {
namespace {

constexpr std::int64_t kPanelsPerTask = 8, kTokensPerTask = 64;

std::int64_t parts(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

struct ScaledTasks {
    const ScaledCall *call;
    const Variant *variant;
    ScaledProduct product;
    std::int8_t *codes;
    float *scales;

    static void quantize(void *context, std::uint32_t index, int) {
        const ScaledTasks &tasks = *static_cast<const ScaledTasks *>(context);
        const ScaledCall &call = *tasks.call;
        const std::int64_t end = std::min((index + 1) * kTokensPerTask, call.tokens);
        for (std::int64_t token = index * kTokensPerTask; token < end; ++token) {
            tasks.variant->scaled->quantize(call.x + token * call.x_stride, call.columns, tasks.codes + token * call.columns,
                                            tasks.scales + token);
        }
    }

    std::int64_t panels() const { return parts(call->rows, kScaledRows); }
    std::int64_t panel_groups() const { return parts(panels(), kPanelsPerTask); }

    static void multiply(void *context, std::uint32_t index, int) {
        const ScaledTasks &tasks = *static_cast<const ScaledTasks *>(context);
        const ScaledCall &call = *tasks.call;
        const std::int64_t group = index % tasks.panel_groups(), begin = index / tasks.panel_groups() * kTokensPerCall;
        const std::int64_t end = std::min(begin + kTokensPerCall, call.tokens);
        alignas(64) float totals[kTokensPerCall * kScaledRows];
        const Epilogue epilogue{call.activation, false, call.bias,
                                call.residual ? call.residual + begin * call.residual_stride : nullptr, call.residual_stride,
                                call.out + begin * call.rows, call.rows, call.rows};
        const std::int64_t last = std::min((group + 1) * kPanelsPerTask, tasks.panels());
        for (std::int64_t panel = group * kPanelsPerTask; panel < last; ++panel) {
            tasks.variant->scaled->multiply(tasks.product, panel, begin, end, totals);
            const std::int64_t first = panel * kScaledRows, stop = std::min(first + kScaledRows, call.rows);
            tasks.variant->rows->finish(epilogue, end - begin, first, stop, totals, totals, kScaledRows);
        }
    }
};

}  // namespace

void run_row_scaled(const ScaledCall &call, int threads, const Variant &variant) {
    thread_local Scratch scratch;
    const std::int64_t held = parts(call.tokens, kScaledTokens) * kScaledTokens;
    auto *const codes = reinterpret_cast<std::int8_t *>(
        scratch.reserve(std::size_t(held * call.columns) + std::size_t(held) * sizeof(float)));
    auto *const scales = reinterpret_cast<float *>(codes + held * call.columns);
    ScaledTasks tasks{&call, &variant, {call.panels, call.row_scales, call.columns, codes, scales}, codes, scales};
    run_tasks(std::uint32_t(parts(call.tokens, kTokensPerTask)), threads, ScaledTasks::quantize, &tasks);
    run_tasks(std::uint32_t(parts(call.tokens, kTokensPerCall) * tasks.panel_groups()), threads, ScaledTasks::multiply, &tasks);
}

void make_panels(const float *weight, std::int64_t rows, std::int64_t columns, std::int8_t *panels, float *row_scales,
                 const Variant &variant) {
    std::vector<std::int8_t> codes(static_cast<std::size_t>(columns));
    for (std::int64_t row = 0; row < rows; ++row) {
        variant.scaled->quantize(weight + row * columns, columns, codes.data(), row_scales + row);
        std::int8_t *const target = panels + row / kScaledRows * columns * kScaledRows + row % kScaledRows * 4;
        for (std::int64_t quad = 0; quad < columns / 4; ++quad) {
            std::memcpy(target + quad * kScaledRows * 4, codes.data() + quad * 4, 4);
        }
    }
}

}  // namespace antiphon
