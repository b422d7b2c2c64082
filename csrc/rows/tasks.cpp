#include "rows/tasks.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/scratch.h"
#include "base/thread_pool.h"
#include "base/workspace.h"

namespace antiphon {
namespace {

constexpr std::int64_t kTaskElements = 16384;  // fewer are not worth another thread's waking

std::int64_t rows_per_task(std::int64_t width) {
    return std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, width));
}

template <class Argument> struct RowTasks {
    void (*kernel)(const Argument &, std::int64_t begin, std::int64_t end);
    const Argument *argument;
    std::int64_t rows, rows_per_task;

    static void run(void *context, std::uint32_t index, int) {
        const RowTasks &tasks = *static_cast<const RowTasks *>(context);
        const std::int64_t begin = index * tasks.rows_per_task;
        tasks.kernel(*tasks.argument, begin, std::min(begin + tasks.rows_per_task, tasks.rows));
    }
};

template <class Argument>
void run_rows(void (*kernel)(const Argument &, std::int64_t, std::int64_t), const Argument &argument, std::int64_t rows,
              std::int64_t width, int threads) {
    RowTasks<Argument> tasks{kernel, &argument, rows, rows_per_task(width)};
    run_tasks(std::uint32_t((rows + tasks.rows_per_task - 1) / tasks.rows_per_task), threads, RowTasks<Argument>::run, &tasks);
}

// Frames [first, last) of a convolution, each task finishing what it computed.
struct FrameTasks {
    static constexpr std::int64_t kFrames = 96;  // of a task: their inputs stay in a near cache
    const Variant *variant;
    Convolution convolution;
    Epilogue epilogue;  // without its place
    std::int64_t first, last;

    static void run(void *context, std::uint32_t index, int) {
        const FrameTasks &tasks = *static_cast<const FrameTasks *>(context);
        const std::int64_t begin = tasks.first + index * kFrames, end = std::min(begin + kFrames, tasks.last);
        tasks.variant->rows.convolve(tasks.convolution, begin, end);
        Epilogue own = tasks.epilogue;
        own.out = tasks.convolution.out + begin * own.out_stride;
        tasks.variant->rows.finish(own, end - begin, 0, own.columns, own.out, own.out, own.out_stride);
    }

    void run_all(int threads) { run_tasks(std::uint32_t((last - first + kFrames - 1) / kFrames), threads, run, this); }
};

struct HeadsWork {
    const HeadsCall *call;
    const Variant *variant;
    std::int64_t tokens, tokens_per_task;
    float *scratch;  // a token's keys, for each thread
    std::int64_t key_floats;

    // Heads of one token: normed and turned, or turned only.
    void prepare(const HeadRows &rows, std::int64_t heads, const float *weight, float eps, std::int64_t token,
                 float *out) const {
        const std::int64_t head_dim = call->pages->head_dim();
        const float *x = rows.data + token * rows.token_stride;
        std::int64_t stride = rows.head_stride;
        if (weight) {
            const Norm norm{{x, heads, 0, stride}, {nullptr, heads, 0, 0}, head_dim, weight, nullptr, eps, out, nullptr};
            variant->rows.rms_norm(norm, 0, heads);
            x = out;
            stride = head_dim;
        }
        const Rotation rotation{{{x, 0, stride, heads, out}, {nullptr, 0, 0, 0, nullptr}}, head_dim, call->rotated,
                                call->positions + token, call->table};
        variant->rows.rotate(rotation, 0, 1);
    }

    static void run(void *context, std::uint32_t index, int thread) {
        const HeadsWork &work = *static_cast<const HeadsWork *>(context);
        const HeadsCall &call = *work.call;
        const std::int64_t head_dim = call.pages->head_dim(), kv_heads = call.pages->kv_heads();
        float *const keys = work.scratch + thread * work.key_floats;
        const std::int64_t begin = index * work.tokens_per_task, end = std::min(begin + work.tokens_per_task, work.tokens);
        for (std::int64_t t = begin; t < end; ++t) {
            work.prepare(call.q, call.heads, call.q_norm, call.q_eps, t, call.q_out + t * call.heads * head_dim);
            work.prepare(call.k, kv_heads, call.k_norm, call.k_eps, t, keys);
            call.pages->store_token(keys, head_dim, call.v.data + t * call.v.token_stride, call.v.head_stride,
                                    call.slots[t], *work.variant);
        }
    }
};

}  // namespace

void run_norm(bool centred, const Norm &norm, std::int64_t rows, int threads, const Variant &variant) {
    run_rows(centred ? variant.rows.layer_norm : variant.rows.rms_norm, norm, rows, norm.width, threads);
}

void check_positions(const std::int32_t *positions, std::int64_t tokens, std::int64_t table_rows) {
    for (std::int64_t t = 0; t < tokens; ++t) {
        if (positions[t] < 0 || positions[t] >= table_rows) {
            throw std::out_of_range("position " + std::to_string(positions[t]) +
                                    " does not lie within the rotary table's " + std::to_string(table_rows) + " rows");
        }
    }
}

void run_rotary(const Rotation &rotation, std::int64_t tokens, int threads, const Variant &variant) {
    const std::int64_t width = (rotation.sides[0].heads + rotation.sides[1].heads) * rotation.head_dim;
    run_rows(variant.rows.rotate, rotation, tokens, width, threads);
}

void run_add(const RowSum &sum, std::int64_t rows, int threads, const Variant &variant) {
    run_rows(variant.rows.add, sum, rows, sum.width, threads);
}

void run_segment_means(const SegmentMeans &means, std::int64_t segments, int threads, const Variant &variant) {
    const std::int64_t tokens = means.seq_start[segments];
    run_rows(variant.rows.segment_means, means, segments, means.width * tokens / std::max<std::int64_t>(1, segments), threads);
}

void run_unit_rows(const UnitRows &rows, std::int64_t count, int threads, const Variant &variant) {
    run_rows(variant.rows.unit_rows, rows, count, rows.width, threads);
}

void run_heads(const HeadsCall &call, std::int64_t tokens, int threads, const Variant &variant) {
    const std::int64_t head_dim = call.pages->head_dim(), kv_heads = call.pages->kv_heads();
    const std::int64_t key_floats = (kv_heads * head_dim + 15) / 16 * 16;
    const std::int64_t per_task = rows_per_task((call.heads + 2 * kv_heads) * head_dim);
    char *const scratch = workspace(std::size_t(key_floats) * std::max(threads, 1) * sizeof(float));
    HeadsWork work{&call, &variant, tokens, per_task, reinterpret_cast<float *>(scratch), key_floats};
    run_tasks(std::uint32_t((tokens + per_task - 1) / per_task), threads, HeadsWork::run, &work);
}

void run_convolution(const ConvolutionCall &c, int threads, const Variant &variant) {
    thread_local Scratch edges;
    const std::int64_t columns = c.kernel * c.channels;
    // Frames lie end to end, so the taps of an output are one run of floats; but for the outputs at the edges, whose
    // taps partly lie outside: theirs are put together.
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
