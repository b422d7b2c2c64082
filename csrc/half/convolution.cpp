#include "half/convolution.h"

#include <algorithm>
#include <vector>

#include "base/scratch.h"
#include "base/thread_pool.h"

namespace antiphon {
namespace {

// Panels of a task, without and with a transform: more panels share the cost of transforming the inputs.
constexpr std::int64_t kPanels = 4, kTransformedPanels = 16;

std::int64_t parts(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

struct HalfTasks {
    const HalfConvolutionCall *call;
    const Variant *variant;
    std::int64_t blocks, panels, panels_per_task, panel_groups;

    static void run(void *context, std::uint32_t index, int) {
        thread_local Scratch scratch;
        const HalfTasks &tasks = *static_cast<const HalfTasks *>(context);
        const HalfConvolutionCall &call = *tasks.call;
        const std::int64_t group = index % tasks.panel_groups, block = index / tasks.panel_groups % tasks.blocks;
        const std::int64_t row = index / tasks.panel_groups / tasks.blocks;
        HalfConvolution own = call.convolution;
        own.x += row * own.frames * own.inputs;
        const std::int64_t begin = block * own.block(), end = std::min(begin + own.block(), call.out_frames);
        const std::int64_t offset = (row * call.out_frames + begin) * call.outputs;
        auto *const there = reinterpret_cast<std::uint16_t *>(scratch.reserve(std::size_t(tasks.variant->half->scratch_halves(own)) * 2));
        tasks.variant->half->prepare(own, begin, end, there);
        alignas(64) float totals[kHalfFrames * kHalfPanel];
        Epilogue epilogue{call.activation, false, call.bias, call.residual ? call.residual + offset : nullptr, call.outputs,
                          call.half_out ? nullptr : call.out + offset, call.outputs, call.outputs};
        const std::int64_t last = std::min((group + 1) * tasks.panels_per_task, tasks.panels);
        for (std::int64_t panel = group * tasks.panels_per_task; panel < last; ++panel) {
            tasks.variant->half->convolve(own, panel, begin, end, there, totals);
            const std::int64_t first = panel * kHalfPanel, stop = std::min(first + kHalfPanel, call.outputs);
            if (call.half_out) {  // the epilogue runs in place, then the result is rounded
                epilogue.out = totals - first;
                epilogue.out_stride = kHalfPanel;
            }
            tasks.variant->rows->finish(epilogue, end - begin, first, stop, totals, totals, kHalfPanel);
            if (!call.half_out) continue;
            for (std::int64_t frame = 0; frame < end - begin; ++frame) {
                tasks.variant->half->round(totals + frame * kHalfPanel, call.half_out + offset + frame * call.outputs + first,
                                           stop - first);
            }
        }
    }
};

struct RoundTasks {
    static constexpr std::int64_t kCount = 32768;
    const float *x;
    std::uint16_t *out;
    std::int64_t count;
    const Variant *variant;

    static void run(void *context, std::uint32_t index, int) {
        const RoundTasks &tasks = *static_cast<const RoundTasks *>(context);
        const std::int64_t begin = index * kCount;
        tasks.variant->half->round(tasks.x + begin, tasks.out + begin, std::min(kCount, tasks.count - begin));
    }
};

}  // namespace

void run_half_convolution(const HalfConvolutionCall &call, int threads, const Variant &variant) {
    const std::vector<std::uint16_t> zeros(call.convolution.inputs, 0);
    HalfConvolutionCall own = call;
    own.convolution.zeros = zeros.data();
    const std::int64_t panels = parts(call.outputs, kHalfPanel);
    const std::int64_t per_task = call.convolution.transform ? kTransformedPanels : kPanels;
    HalfTasks tasks{&own, &variant, parts(call.out_frames, call.convolution.block()), panels, per_task, parts(panels, per_task)};
    run_tasks(std::uint32_t(call.rows * tasks.blocks * tasks.panel_groups), threads, HalfTasks::run, &tasks);
}

void run_rounding(const float *x, std::uint16_t *out, std::int64_t count, int threads, const Variant &variant) {
    RoundTasks tasks{x, out, count, &variant};
    run_tasks(std::uint32_t(parts(count, RoundTasks::kCount)), threads, RoundTasks::run, &tasks);
}

}  // namespace antiphon
