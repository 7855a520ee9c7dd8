// Threads that stay. Starting a thread can take longer than a short product, so the threads of one product wait for
// the next one. After a while without work they sleep.
#pragma once
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

namespace vrpca {

class Pool {
public:
    // The pool of this process. A forked child has none of its parent's threads, so it gets a new pool. A pool is
    // never destroyed, because its threads may sleep until the process ends.
    static Pool& get() {
        static std::mutex mutex;
        static Pool* pool = nullptr;
        static pid_t owner = 0;
        std::lock_guard<std::mutex> lock(mutex);
        if (!pool || owner != getpid()) {
            pool = new Pool;
            owner = getpid();
        }
        return *pool;
    }

    // Runs work(0), ..., work(parts - 1). The calling thread does the last part, and then those parts that no other
    // thread has begun. `work` must not throw.
    void run(std::int64_t parts, const std::function<void(std::int64_t)>& work) {
        Job job{&work, parts - 1};
        {
            std::lock_guard<std::mutex> lock(mutex_);
            grow(parts - 1);
            for (std::int64_t p = 0; p + 1 < parts; p++) tasks_.push_back({&job, p});
            waiting_ = !tasks_.empty();
        }
        wake_.notify_all();
        work(parts - 1);
        std::unique_lock<std::mutex> lock(mutex_);
        while (take_own(job, lock)) {
        }
        lock.unlock();
        await([&] { return job.left == 0; });
        lock.lock();
        job.done.wait(lock, [&] { return job.left == 0; });
    }

private:
    // How long a thread waits before it sleeps. A longer wait saves waking up if the next product comes late. A
    // shorter wait leaves the core to others sooner.
    static constexpr std::chrono::microseconds PATIENCE{1000};

    struct Job {
        const std::function<void(std::int64_t)>* work;
        std::atomic<std::int64_t> left;
        std::condition_variable done{};
    };
    struct Task {
        Job* job;
        std::int64_t part;
    };

    // Waits until `ready` or until PATIENCE is over, without sleeping.
    template <class F>
    static void await(F&& ready) {
        const auto end = std::chrono::steady_clock::now() + PATIENCE;
        while (!ready() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }

    // Starts threads until there are as many as wanted, or until the system has no more to give.
    void grow(std::int64_t wanted) {
        try {
            for (; threads_ < wanted; threads_++) std::thread([this] { serve(); }).detach();
        } catch (const std::system_error&) {
        }
    }

    // What a thread of the pool does, for ever.
    void serve() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            lock.unlock();
            await([&] { return waiting_.load(); });
            lock.lock();
            wake_.wait(lock, [&] { return !tasks_.empty(); });
            Task task = tasks_.front();
            tasks_.pop_front();
            waiting_ = !tasks_.empty();
            finish(task, lock);
        }
    }

    // Runs a task of this job if one is left.
    bool take_own(Job& job, std::unique_lock<std::mutex>& lock) {
        for (auto t = tasks_.begin(); t != tasks_.end(); ++t)
            if (t->job == &job) {
                Task task = *t;
                tasks_.erase(t);
                waiting_ = !tasks_.empty();
                finish(task, lock);
                return true;
            }
        return false;
    }

    // Runs a task. The lock is released meanwhile.
    void finish(const Task& task, std::unique_lock<std::mutex>& lock) {
        lock.unlock();
        (*task.job->work)(task.part);
        lock.lock();
        if (--task.job->left == 0) task.job->done.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Task> tasks_;
    std::int64_t threads_ = 0;
    std::atomic<bool> waiting_{false};  // whether there are tasks; may be read without the mutex
};

// Runs work(0), ..., work(parts - 1) in parallel.
template <class F>
void in_parallel(std::int64_t parts, F&& work) {
    if (parts == 1) work(0);
    else Pool::get().run(parts, work);
}

}  // namespace vrpca
