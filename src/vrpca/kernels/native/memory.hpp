// Memory for scratch, results and sums.
#pragma once
#include <memory>
#include <mutex>
#include <new>

#include "rows.hpp"

namespace vrpca {

// Memory begins with a cache line, so that small rows do not straddle two lines.
constexpr std::align_val_t LINE{64};

struct FreeLine {
    template <class T>
    void operator()(T* p) const { ::operator delete[](p, LINE); }
};
template <class T>
using Memory = std::unique_ptr<T[], FreeLine>;

// `size` numbers that are not set. There is at least one, so that there is an address.
template <class T>
Memory<T> scratch(i64 size) { return Memory<T>(new (LINE) T[size > 0 ? size : 1]); }

template <class T>
Memory<T> zeros(i64 size) { return Memory<T>(new (LINE) T[size > 0 ? size : 1]()); }

// Memory that a product leaves for the next product. Fresh memory costs page faults.
template <class T>
struct Room {
    std::mutex mutex;
    Memory<T> memory;
    i64 size = 0;
};

// Scratch from a Room. Only one product at a time may use the Room. Another product gets memory of its own.
template <class T>
class Borrowed {
public:
    Borrowed(Room<T>& room, i64 size) : lock_(room.mutex, std::try_to_lock) {
        if (!lock_) {
            own_ = scratch<T>(size);
            data_ = own_.get();
            return;
        }
        if (size > room.size) {
            room.memory = scratch<T>(size);
            room.size = size;
        }
        data_ = room.memory.get();
    }
    T* get() const { return data_; }

private:
    std::unique_lock<std::mutex> lock_;
    Memory<T> own_;
    T* data_;
};

}  // namespace vrpca
