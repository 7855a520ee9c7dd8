// SIMD registers and prefetching. Lanes is one register. Pack is N numbers in as many registers as they need.
#pragma once
#include <cstdint>
#include <utility>

#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// The largest registers of the instruction set, in bytes, and how many of them it has. Tests can ask for larger ones
// than the processor has: the compiler makes each of them of several.
#if defined(VRPCA_REGISTER)
constexpr int REGISTER = VRPCA_REGISTER, REGISTERS = VRPCA_REGISTER == 64 ? 32 : 16;
#elif defined(__AVX512F__)
constexpr int REGISTER = 64, REGISTERS = 32;
#elif defined(__AVX__)
constexpr int REGISTER = 32, REGISTERS = 16;
#elif defined(__aarch64__)
constexpr int REGISTER = 16, REGISTERS = 32;
#else
constexpr int REGISTER = 16, REGISTERS = 16;
#endif

// The numbers in a register.
template <class T>
constexpr i64 LANE = REGISTER / i64(sizeof(T));

// gcc drops the calls of a function that only prefetches, because it finds no effect. The empty asm statement
// prevents that.
inline void prefetch(const void* p) {
    __builtin_prefetch(p);
    __asm__ volatile("");
}

// Prefetches `size` bytes into the second-level cache, beginning `distance` bytes after p. They may be past the end of
// the data. A kernel that walks memory and computes meanwhile waits much less if it asks for what comes next: the
// processor's own prefetcher does not go far enough. One column of MNIST takes 4.7 ms instead of 8.
inline void prefetch_second(const void* p, i64 distance, i64 size) {
    const auto at = reinterpret_cast<std::uintptr_t>(p) + std::uintptr_t(distance);
    for (i64 byte = 0; byte < size; byte += 64) {
        __builtin_prefetch(reinterpret_cast<const void*>(at + std::uintptr_t(byte)), 0, 2);
        __asm__ volatile("");
    }
}

// Asks for the rows that come next while others are multiplied: `step` bytes in every step, so that requests do not have
// to wait for each other. They come no further than the second-level cache: the first one has what is multiplied.
struct Ahead {
    const void* from;
    i64 distance, step;  // bytes
    void ask() {
        prefetch_second(from, distance, step);
        distance += step;
    }
};

// Keeps a number that was loaded in its register. Otherwise gcc may load it once more for every use, where a processor
// has fewer loads than multiplications to spare. Registers that tests ask for may not exist.
template <class V>
inline void keep(V& v) {
#if defined(__x86_64__) && !defined(VRPCA_REGISTER)
    __asm__("" : "+v"(v));
#elif defined(__aarch64__) && !defined(VRPCA_REGISTER)
    __asm__("" : "+w"(v));
#else
    (void)v;
#endif
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

// The sum of a register's elements. Halves of it are added until 16 bytes are left.
template <class T, class V>
inline T total(V v) {
    constexpr int bytes = int(sizeof(V));
    if constexpr (bytes > 16) {
        typename Lanes<T, bytes / 2>::V low, high;
        __builtin_memcpy(&low, &v, bytes / 2);
        __builtin_memcpy(&high, reinterpret_cast<const char*>(&v) + bytes / 2, bytes / 2);
        return total<T>(low + high);
    } else {
        T t = 0;
        for (int e = 0; e < bytes / int(sizeof(T)); e++) t += v[e];
        return t;
    }
}

// The sums of several registers' elements, at once: of as many registers as 16 bytes have numbers. Pairs of registers
// are shuffled and added until every 16 bytes of one register have a part of each sum. Then its halves are added.
#if defined(__clang__) || __GNUC__ >= 12
constexpr bool SHUFFLES = true;
template <class T, class V, int... e>
inline V shuffled(V a, V b, bool high, std::integer_sequence<int, e...>) {
    constexpr int n = int(sizeof(V) / sizeof(T)), lane = 16 / int(sizeof(T)), half = lane / 2;
    // Element e of the result is element e / 2 of the lower or higher half of its 16 bytes, of a and b in turns.
    if (high) return __builtin_shufflevector(a, b, (e / lane * lane + e % lane / 2 + half + e % 2 * n)...);
    return __builtin_shufflevector(a, b, (e / lane * lane + e % lane / 2 + e % 2 * n)...);
}
template <class T, class V>
inline V added(V a, V b) {
    constexpr auto all = std::make_integer_sequence<int, int(sizeof(V) / sizeof(T))>();
    return shuffled<T>(a, b, false, all) + shuffled<T>(a, b, true, all);
}
template <class T, class V>
inline typename Lanes<T, 16>::V folded(V v) {
    if constexpr (sizeof(V) > 16) {
        constexpr int bytes = int(sizeof(V));
        typename Lanes<T, bytes / 2>::V low, high;
        __builtin_memcpy(&low, &v, bytes / 2);
        __builtin_memcpy(&high, reinterpret_cast<const char*>(&v) + bytes / 2, bytes / 2);
        return folded<T>(low + high);
    } else {
        return v;
    }
}
template <class T, class V>
inline typename Lanes<T, 16>::V totals(const V* v) {
    if constexpr (sizeof(T) == 8) return folded<T>(added<T>(v[0], v[1]));
    // Of a and c, and of b and d: [a0 + a2, c0 + c2, a1 + a3, c1 + c3]. Of both: the sums of a, b, c and d.
    else return folded<T>(added<T>(added<T>(v[0], v[2]), added<T>(v[1], v[3])));
}
#else
constexpr bool SHUFFLES = false;
template <class T, class V>
inline typename Lanes<T, 16>::V totals(const V*) { return {}; }
#endif

// y[e] += the sum of the elements of register e.
template <int count, class T, class V>
inline void add_totals(const V* sum, T* y) {
    using L = Lanes<T, 16>;
    constexpr int lane = 16 / int(sizeof(T));
    int e = 0;
    for (; SHUFFLES && e + lane <= count; e += lane) L::put(y + e, L::get(y + e) + totals<T>(sum + e));
    for (; e < count; e++) y[e] += total<T>(sum[e]);
}

// N numbers in the largest registers that they fill, of 64, 32 or 16 bytes. If they do not fill any, they are a pair of
// floats or single numbers.
template <class T, int N>
struct Pack {
    static constexpr int all = N * int(sizeof(T));
    static constexpr int large = all % REGISTER == 0 ? REGISTER : all % 32 == 0 && REGISTER > 32 ? 32 : 16;
    static constexpr int bytes = all % 16 == 0 ? large : all == 8 ? 8 : int(sizeof(T));
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
