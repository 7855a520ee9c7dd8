// SIMD registers and prefetching. Lanes is one register. Pack is N numbers in as many registers as they need.
#pragma once
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// gcc drops the calls of a function that only prefetches, because it finds no effect. The empty asm statement
// prevents that.
inline void prefetch(const void* p) {
    __builtin_prefetch(p);
    __asm__ volatile("");
}

// Prefetches begin..end, but at most the first `most` bytes. A cache line has 64 bytes.
inline void prefetch_range(const void* begin, const void* end, i64 most) {
    const char* p = static_cast<const char*>(begin);
    const char* stop = static_cast<const char*>(end);
    if (p + most < stop) stop = p + most;
    for (; p < stop; p += 64) prefetch(p);
}

// One register of `bytes` bytes. `get` and `put` take any address, aligned or not.
template <class T, int bytes>
struct Lanes {
    typedef T V __attribute__((vector_size(bytes)));
    typedef T Unaligned __attribute__((vector_size(bytes), aligned(alignof(T)), may_alias));
    static V get(const T* p) { return *reinterpret_cast<const Unaligned*>(p); }
    static void put(T* p, V v) { *reinterpret_cast<Unaligned*>(p) = v; }
};
template <class T>
struct Scalar {
    using V = T;
    static V get(const T* p) { return *p; }
    static void put(T* p, V v) { *p = v; }
};
template <>
struct Lanes<float, 8> {  // two floats in the lower half of a register of 16 bytes
    typedef float V __attribute__((vector_size(16)));
    typedef double Half __attribute__((vector_size(16)));
    static V get(const float* p) {
        double two;
        __builtin_memcpy(&two, p, 8);
        return reinterpret_cast<V>(Half{two, 0});
    }
    static void put(float* p, V v) {
        double two = reinterpret_cast<Half>(v)[0];
        __builtin_memcpy(p, &two, 8);
    }
};
template <>
struct Lanes<float, sizeof(float)> : Scalar<float> {};
template <>
struct Lanes<double, sizeof(double)> : Scalar<double> {};

using Quad = Lanes<double, 32>;

// The sum of a register's elements.
template <class T, class V>
inline T total(V v) {
    T t = 0;
    for (unsigned e = 0; e < sizeof(V) / sizeof(T); e++) t += v[e];
    return t;
}

// N numbers in registers of 32 bytes. If they do not fill whole registers of 32 bytes, they are in registers of 16
// bytes. If they do not fill those either, they are a pair of floats or single numbers.
template <class T, int N>
struct Pack {
    static constexpr int all = N * int(sizeof(T));
    static constexpr int bytes = all % 32 == 0 ? 32 : all % 16 == 0 ? 16 : all == 8 ? 8 : int(sizeof(T));
    static constexpr int count = all / bytes;
    static constexpr int lane = bytes / int(sizeof(T));
    using L = Lanes<T, bytes>;
    typename L::V v[count];

    void zero() {
        for (int c = 0; c < count; c++) v[c] = typename L::V{};
    }
    void load(const T* p) {
        for (int c = 0; c < count; c++) v[c] = L::get(p + c * lane);
    }
    void store(T* p) const {
        for (int c = 0; c < count; c++) L::put(p + c * lane, v[c]);
    }
    void add(const Pack& o) {
        for (int c = 0; c < count; c++) v[c] += o.v[c];
    }
    void add_scaled(T s, const T* p) {
        for (int c = 0; c < count; c++) v[c] += s * L::get(p + c * lane);
    }
    void add_product(T s, const Pack& o) {
        for (int c = 0; c < count; c++) v[c] += s * o.v[c];
    }
    void add_to(T s, T* p) const {
        for (int c = 0; c < count; c++) L::put(p + c * lane, L::get(p + c * lane) + s * v[c]);
    }
};

}  // namespace VRPCA_ISA
}  // namespace vrpca
