#include "sound/tasks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/thread_pool.h"
#include "half/kernels.h"

namespace antiphon {
namespace {

constexpr std::int64_t kFramesPerTask = 64;

std::int64_t parts(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

struct SumTasks {
    FrameSums sums;
    const Variant *variant;

    static void run(void *context, std::uint32_t index, int) {
        const SumTasks &tasks = *static_cast<const SumTasks *>(context);
        tasks.variant->frames->sums(tasks.sums, index, index + 1);
    }
};

template <class Argument> struct FrameRuns {
    void (*kernel)(const Argument &, std::int64_t, std::int64_t);
    const Argument *argument;
    std::int64_t frames;

    static void run(void *context, std::uint32_t index, int) {
        const FrameRuns &runs = *static_cast<const FrameRuns *>(context);
        const std::int64_t begin = index * kFramesPerTask;
        runs.kernel(*runs.argument, begin, std::min(begin + kFramesPerTask, runs.frames));
    }

    void run_all(int threads) { run_tasks(std::uint32_t(parts(frames, kFramesPerTask)), threads, run, this); }
};

struct RecurrenceTasks {
    Recurrence *recurrences;
    const Variant *variant;

    static void run(void *context, std::uint32_t index, int) {
        const RecurrenceTasks &tasks = *static_cast<const RecurrenceTasks *>(context);
        tasks.variant->frames->recur(tasks.recurrences[index]);
    }
};

}  // namespace

void run_adaptive_norm(const AdaptiveNormCall &call, int threads, const Variant &variant) {
    const std::int64_t channels = call.channels, blocks = parts(call.frames, kSumFrames);
    std::vector<float> memory((2 * blocks + 3) * channels);
    float *const mean = memory.data(), *const gain = mean + channels, *const offset = gain + channels;
    float *const sums = offset + channels, *const squares = sums + blocks * channels;
    // The first frame is subtracted from all: if the mean is large, the squares would lose precision.
    SumTasks first{{call.x, channels, call.x, sums, squares, call.frames}, &variant};
    run_tasks(std::uint32_t(blocks), threads, SumTasks::run, &first);
    for (std::int64_t c = 0; c < channels; ++c) {
        double sum = 0, square = 0;
        for (std::int64_t block = 0; block < blocks; ++block) {
            sum += sums[block * channels + c];
            square += squares[block * channels + c];
        }
        const double centre = sum / double(call.frames);
        const double variance = std::max(0.0, square / double(call.frames) - centre * centre);
        const double alpha = call.alpha ? call.alpha[c] : 1.0;
        mean[c] = float(call.x[c] + centre);
        gain[c] = float(alpha * call.scale[c] / std::sqrt(variance + call.eps));
        offset[c] = float(alpha * call.shift[c]);
    }
    const FrameNorm norm{call.x, channels, mean, gain, offset, call.function, call.slope, call.out, call.half_out,
                         variant.half ? variant.half->round : nullptr};
    FrameRuns<FrameNorm>{variant.frames->norm, &norm, call.frames}.run_all(threads);
}

void run_depthwise(const Depthwise &depthwise, std::int64_t rows, int threads, const Variant &variant) {
    for (std::int64_t row = 0; row < rows; ++row) {
        Depthwise own = depthwise;
        own.x += row * own.frames * own.channels;
        own.out += row * own.frames * own.channels;
        FrameRuns<Depthwise>{variant.frames->depthwise, &own, own.frames}.run_all(threads);
    }
}

void run_pulses(const PulseTrain &train, int threads, const Variant &variant) {
    std::vector<float> share(train.hop);
    for (std::int64_t i = 0; i < train.hop; ++i) {
        const float position = (float(i) + 0.5f) / float(train.hop) - 0.5f;
        share[i] = i < train.hop / 2 ? position + 1.0f : position;
    }
    std::vector<double> before(train.frames);
    PulseTrain own = train;
    own.share = share.data();
    own.before = before.data();
    variant.frames->begin_pulses(own);
    FrameRuns<PulseTrain>{variant.frames->pulses, &own, own.frames}.run_all(threads);
}

void run_spectra(const SpectraSum &spectra, std::int64_t frames, int threads, const Variant &variant) {
    FrameRuns<SpectraSum>{variant.frames->sum_spectra, &spectra, frames}.run_all(threads);
}

void run_recurrences(Recurrence *recurrences, std::int64_t count, int threads, const Variant &variant) {
    std::vector<float> states;
    std::size_t size = 0;
    for (std::int64_t i = 0; i < count; ++i) size += std::size_t(3 * recurrences[i].hidden + 64);
    states.resize(size);
    float *state = states.data();
    for (std::int64_t i = 0; i < count; ++i) {
        recurrences[i].state = state;
        state += 3 * recurrences[i].hidden + 64;  // padding: threads must not share a cache line
    }
    RecurrenceTasks tasks{recurrences, &variant};
    run_tasks(std::uint32_t(count), threads, RecurrenceTasks::run, &tasks);
}

}  // namespace antiphon
