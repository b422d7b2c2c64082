#include "base/thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace antiphon {
namespace {

using Task = void (*)(void *, std::uint32_t, int);

// Time that a thread spins before it sleeps: longer than the gap between two parallel operations of a forward pass, so that
// threads are awake for the next operation. Longer spinning would use up the process's share of a busy processor.
constexpr auto kSpin = std::chrono::microseconds(50);

inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

class Pool {
public:
    void run(std::uint32_t count, int threads, Task task, void *context) {
        const std::lock_guard<std::mutex> turn(turn_);
        while (workers_ < threads - 1 && start_worker()) {
        }
        publish(count, threads, task, context);
        while (claim_and_run(0)) {
        }
        for (int tries = 0; done_.load(std::memory_order_acquire) < count; ++tries) {
            if (tries < 10000) {
                pause_briefly();
            } else {
                std::this_thread::yield();
            }
        }
    }

private:
    // `ticket_` holds the number of the call in its upper half and the next task in its lower half. A thread claims a task
    // by incrementing it, which fails once another call has begun: a late thread then discards the task that it read.
    static constexpr std::uint32_t kClosed = 0xFFFFFFFFu;

    void publish(std::uint32_t count, int threads, Task task, void *context) {
        const std::uint64_t call = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
        ticket_.store(call << 32 | kClosed, std::memory_order_seq_cst);
        done_.store(0, std::memory_order_relaxed);
        count_.store(count, std::memory_order_release);
        threads_.store(threads, std::memory_order_release);
        task_.store(task, std::memory_order_release);
        context_.store(context, std::memory_order_release);
        ticket_.store(call << 32, std::memory_order_seq_cst);
        if (threads > 1 && sleepers_.load(std::memory_order_seq_cst) > 0) {
            const std::lock_guard<std::mutex> lock(sleep_);
            wake_.notify_all();
        }
    }

    bool has_task(std::uint64_t ticket, int thread) const {
        return std::uint32_t(ticket) < count_.load(std::memory_order_acquire) &&
               thread < threads_.load(std::memory_order_acquire);
    }

    bool claim_and_run(int thread) {
        std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
        while (has_task(ticket, thread)) {
            const Task task = task_.load(std::memory_order_acquire);
            void *const context = context_.load(std::memory_order_acquire);
            if (ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) {
                task(context, std::uint32_t(ticket), thread);
                done_.fetch_add(1, std::memory_order_release);
                return true;
            }
        }
        return false;
    }

    bool start_worker() {
        try {
            const int thread = workers_ + 1;
            std::thread([this, thread] { work(thread); }).detach();
            ++workers_;
            return true;
        } catch (const std::system_error &) {
            return false;  // the system refuses more threads: the existing ones do the work
        }
    }

    void work(int thread) {
        for (;;) {
            const auto deadline = std::chrono::steady_clock::now() + kSpin;
            bool found = claim_and_run(thread);
            while (!found && std::chrono::steady_clock::now() < deadline) {
                for (int i = 0; i < 16 && !found; ++i) {
                    pause_briefly();
                    found = claim_and_run(thread);
                }
            }
            if (found) continue;
            std::unique_lock<std::mutex> lock(sleep_);
            sleepers_.fetch_add(1, std::memory_order_seq_cst);
            wake_.wait(lock, [&] { return has_task(ticket_.load(std::memory_order_seq_cst), thread); });
            sleepers_.fetch_sub(1, std::memory_order_relaxed);
        }
    }

    std::mutex turn_;
    int workers_ = 0;
    std::atomic<std::uint64_t> ticket_{kClosed};
    std::atomic<std::uint32_t> count_{0}, done_{0};
    std::atomic<int> threads_{0};
    std::atomic<Task> task_{nullptr};
    std::atomic<void *> context_{nullptr};
    std::mutex sleep_;
    std::condition_variable wake_;
    std::atomic<int> sleepers_{0};
};

// Never destroyed: the threads may outlive the statics of the process. A forked child starts with a new pool: it has none of
// its parent's threads, and its copy of the pool may hold a lock that no thread will release.
std::atomic<Pool *> current{nullptr};

Pool &pool() {
    static const int registered = pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });
    (void)registered;
    Pool *found = current.load(std::memory_order_acquire);
    if (!found) {
        Pool *made = new Pool;
        if (current.compare_exchange_strong(found, made)) {
            found = made;
        } else {
            delete made;
        }
    }
    return *found;
}

}  // namespace

void run_tasks(std::uint32_t count, int threads, Task task, void *context) {
    if (threads <= 1 || count <= 1) {
        for (std::uint32_t index = 0; index < count; ++index) task(context, index, 0);
        return;
    }
    pool().run(count, threads, task, context);
}

}  // namespace antiphon
