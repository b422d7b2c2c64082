#include "sound/convolution.h"

#include <algorithm>

#include "base/scratch.h"
#include "base/thread_pool.h"
#include "sound/kernels.h"

namespace antiphon {
namespace {

// Frames [first, last) of a convolution; each task also applies the epilogue to its frames.
struct FrameTasks {
    static constexpr std::int64_t kFrames = 96;  // frames of a task: their inputs stay in the cache
    const Variant *variant;
    Convolution convolution;
    Epilogue epilogue;  // without the address of the result
    std::int64_t first, last;

    static void run(void *context, std::uint32_t index, int) {
        const FrameTasks &tasks = *static_cast<const FrameTasks *>(context);
        const std::int64_t begin = tasks.first + index * kFrames, end = std::min(begin + kFrames, tasks.last);
        tasks.variant->frames->convolve(tasks.convolution, begin, end);
        Epilogue own = tasks.epilogue;
        own.out = tasks.convolution.out + begin * own.out_stride;
        tasks.variant->rows->finish(own, end - begin, 0, own.columns, own.out, own.out, own.out_stride);
    }

    void run_all(int threads) { run_tasks(std::uint32_t((last - first + kFrames - 1) / kFrames), threads, run, this); }
};

}  // namespace

void run_convolution(const ConvolutionCall &c, int threads, const Variant &variant) {
    thread_local Scratch edges;
    const std::int64_t columns = c.kernel * c.channels;
    // Frames lie end to end, so the taps of an output are one run of floats. Outputs at the edges have taps outside the
    // frames: their taps are copied to a buffer.
    const std::int64_t first = std::min((c.left + c.stride - 1) / c.stride, c.out_frames);
    const std::int64_t reach = c.frames + c.left - c.kernel;
    const std::int64_t last = std::max(first, reach < 0 ? 0 : std::min(reach / c.stride + 1, c.out_frames));
    float *const taps = reinterpret_cast<float *>(edges.reserve(columns * sizeof(float)));
    const Epilogue epilogue{c.activation, false, c.bias, nullptr, 0, nullptr, c.out_channels, c.out_channels};
    for (std::int64_t window = 0; window < c.windows; ++window) {
        const float *const x = c.x + window * c.frames * c.channels;
        float *const out = c.out + window * c.out_frames * c.out_channels;
        FrameTasks inside{&variant, {c.panels, columns, c.out_channels, x - c.left * c.channels, c.stride * c.channels, out,
                                     c.out_channels}, epilogue, first, last};
        inside.run_all(threads);
        for (std::int64_t frame = 0; frame < c.out_frames; ++frame) {
            if (frame == first) frame = last;
            if (frame >= c.out_frames) break;
            for (std::int64_t tap = 0; tap < c.kernel; ++tap) {
                const std::int64_t source = frame * c.stride - c.left + tap;
                const bool within = source >= 0 && source < c.frames;
                for (std::int64_t i = 0; i < c.channels; ++i) taps[tap * c.channels + i] = within ? x[source * c.channels + i] : 0;
            }
            FrameTasks edge{&variant, {c.panels, columns, c.out_channels, taps, 0, out + frame * c.out_channels,
                                       c.out_channels}, epilogue, 0, 1};
            edge.run_all(1);
        }
    }
}

}  // namespace antiphon
