#include "attention/heads.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "base/workspace.h"
#include "rows/tasks.h"

namespace antiphon {
namespace {

struct HeadsWork {
    const HeadsCall *call;
    const Variant *variant;
    std::int64_t tokens, tokens_per_task;
    float *scratch;  // keys of one token for each thread
    std::int64_t key_floats;

    // Rotates the heads of one token, normalised before if there is a weight.
    void prepare(const HeadRows &rows, std::int64_t heads, const float *weight, float eps, std::int64_t token,
                 float *out) const {
        const std::int64_t head_dim = call->pages->head_dim();
        const float *x = rows.data + token * rows.token_stride;
        std::int64_t stride = rows.head_stride;
        if (weight) {
            const Norm norm{{x, heads, 0, stride}, {nullptr, heads, 0, 0}, head_dim, weight, nullptr, eps, out, nullptr};
            variant->rows->rms_norm(norm, 0, heads);
            x = out;
            stride = head_dim;
        }
        const Rotation rotation{{{x, 0, stride, heads, out}, {nullptr, 0, 0, 0, nullptr}}, head_dim, call->rotated,
                                call->positions + token, call->table};
        variant->rows->rotate(rotation, 0, 1);
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

void run_heads(const HeadsCall &call, std::int64_t tokens, int threads, const Variant &variant) {
    const std::int64_t head_dim = call.pages->head_dim(), kv_heads = call.pages->kv_heads();
    const std::int64_t key_floats = (kv_heads * head_dim + 15) / 16 * 16;
    const std::int64_t per_task = rows_per_task((call.heads + 2 * kv_heads) * head_dim);
    char *const scratch = workspace(std::size_t(key_floats) * std::max(threads, 1) * sizeof(float));
    HeadsWork work{&call, &variant, tokens, per_task, reinterpret_cast<float *>(scratch), key_floats};
    run_tasks(std::uint32_t((tokens + per_task - 1) / per_task), threads, HeadsWork::run, &work);
}

}  // namespace antiphon
