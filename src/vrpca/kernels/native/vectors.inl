// The arithmetic of vectors.hpp. Four vectors are computed at once, so that an entry of the other vectors is loaded
// once for four.
#pragma once
#include <cstddef>

#include "simd.inl"
#include "vectors.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// Asks for what lies `distance` entries after p, in the next piece, if there is a distance. A register takes a cache line
// or less. The vectors lie far apart, so that the processor's own prefetcher sees many short walks.
template <class T>
inline void ask_ahead(const T* p, i64 distance) {
    if (distance) prefetch_second(p, distance * i64(sizeof(T)), 1);
}

// out_i = sum over r < n of k[4 r + i] row_r, for R vectors out_i of `count` entries. Meanwhile it asks for what lies
// `distance` entries ahead.
template <int R, class T>
inline void combine_rows(const T* const* rows, i64 n, i64 count, const T* k, T* const* out, i64 distance) {
    using L = Lanes<T, REGISTER>;
    constexpr i64 lane = LANE<T>;
    i64 j = 0;
    for (; j + 2 * lane <= count; j += 2 * lane) {
        typename L::V low[R] = {}, high[R] = {};
        for (i64 r = 0; r < n; r++) {
            const auto x0 = L::get(rows[r] + j), x1 = L::get(rows[r] + j + lane);
            ask_ahead(rows[r] + j, distance);
            ask_ahead(rows[r] + j + lane, distance);
            for (int i = 0; i < R; i++) {
                low[i] += k[4 * r + i] * x0;
                high[i] += k[4 * r + i] * x1;
            }
        }
        for (int i = 0; i < R; i++) {
            L::put(out[i] + j, low[i]);
            L::put(out[i] + j + lane, high[i]);
        }
    }
    for (; j < count; j++)
        for (int i = 0; i < R; i++) {
            T sum = 0;
            for (i64 r = 0; r < n; r++) sum += k[4 * r + i] * rows[r][j];
            out[i][j] = sum;
        }
}

// D_ic += a_i . b_c for R vectors a_i and C vectors b_c. Rows of D are ld apart. Meanwhile it asks for what lies
// `distance` entries ahead in the vectors b_c.
template <int R, int C, class T>
inline void dot_rows(const T* const* a, const T* const* b, i64 count, double* D, i64 ld, i64 distance) {
    using L = Lanes<T, REGISTER>;
    constexpr i64 lane = LANE<T>;
    constexpr int all = (R * C + 3) / 4 * 4;  // with zeros: sums of elements are found in one way, whatever R and C are
    typename L::V sum[all] = {};
    i64 j = 0;
    for (; j + lane <= count; j += lane) {
        typename L::V x[R];
        for (int i = 0; i < R; i++) x[i] = L::get(a[i] + j);
        for (int c = 0; c < C; c++) {
            const auto y = L::get(b[c] + j);
            ask_ahead(b[c] + j, distance);
            for (int i = 0; i < R; i++) sum[i * C + c] += x[i] * y;
        }
    }
    T dots[all] = {};
    add_totals<all>(sum, dots);
    for (int i = 0; i < R; i++)
        for (int c = 0; c < C; c++) {
            for (i64 e = j; e < count; e++) dots[i * C + c] += a[i][e] * b[c][e];
            D[i * ld + c] += double(dots[i * C + c]);
        }
}

// Calls f.run<4>(i) for one group of four vectors after the other, and f.run<R>(i) for the last R vectors, if any. i
// is the first vector of a group.
template <class F>
inline void by_fours(i64 q, F&& f) {
    i64 i = 0;
    for (; i + 4 <= q; i += 4) f.template run<4>(i);
    if (q - i == 3) f.template run<3>(i);
    if (q - i == 2) f.template run<2>(i);
    if (q - i == 1) f.template run<1>(i);
}

// V = K rows. Rows whose coefficients are all zero are not read.
template <class T>
struct Combine {
    const T* const* rows;
    i64 n, count;
    const double* K;
    T *coefficients, *V;
    i64 d, distance;
    const T** used;
    template <int R>
    void run(i64 i) {
        T* out[R];
        for (int s = 0; s < R; s++) out[s] = V + (i + s) * d;
        i64 u = 0;
        for (i64 r = 0; r < n; r++) {
            bool counts = false;
            for (int s = 0; s < R; s++) {
                coefficients[4 * u + s] = T(K[(i + s) * n + r]);
                counts |= K[(i + s) * n + r] != 0;
            }
            if (counts) used[u++] = rows[r];
        }
        combine_rows<R>(used, u, count, coefficients, out, i == 0 ? distance : 0);
    }
};

// Vectors that are multiplied with four others at once: these, one of them, and the sums fit the registers.
constexpr int DOTS = REGISTERS >= 32 ? 4 : 2;

// D += V rows^T.
template <class T>
struct Dots {
    const T* const* rows;
    i64 n, count;
    const T* V;
    i64 d, distance;
    double* D;
    template <int R>
    void run(i64 i) {
        const T* a[R];
        for (int s = 0; s < R; s++) a[s] = V + (i + s) * d;
        i64 c = 0;
        const i64 ahead = i == 0 ? distance : 0;
        for (; c + DOTS <= n; c += DOTS) dot_rows<R, DOTS>(a, rows + c, count, D + i * n + c, n, ahead);
        for (; c < n; c++) dot_rows<R, 1>(a, rows + c, count, D + i * n + c, n, ahead);
    }
};

template <class T>
void sweep(const T* S, i64 m, const double* K, T* V, i64 b, i64 q, i64 d, i64 lo, i64 hi, double* D, i64 columns,
           T* scratch, const T** rows) {
    T *copy = scratch, *coefficients = copy + b * PIECE;
    for (i64 at = lo; at < hi; at += PIECE) {
        const i64 count = hi - at < PIECE ? hi - at : PIECE, distance = hi - at > PIECE ? PIECE : 0;
        for (i64 s = 0; s < m; s++) rows[s] = S + s * d + at;
        if (K) {
            for (i64 i = 0; i < b; i++) {
                rows[m + i] = copy + i * PIECE;
                __builtin_memcpy(copy + i * PIECE, V + i * d + at, std::size_t(count) * sizeof(T));
            }
            by_fours(q, Combine<T>{rows, m + b, count, K, coefficients, V + at, d, distance, rows + m + b});
        }
        for (i64 i = 0; i < q; i++) rows[m + i] = V + i * d + at;
        if (columns) by_fours(q, Dots<T>{rows + m + q - columns, columns, count, V + at, d, distance, D});
    }
}

template <class T>
void transpose(const T* W, i64 rows, i64 columns, i64 ldW, T* out, i64 ld) {
    constexpr i64 side = 16;  // of a square tile: 16 floats are one cache line
    for (i64 i = 0; i < rows; i += side)
        for (i64 j = 0; j < columns; j += side) {
            const i64 i_end = i + side < rows ? i + side : rows, j_end = j + side < columns ? j + side : columns;
            if (rows < columns)
                for (i64 c = j; c < j_end; c++)
                    for (i64 r = i; r < i_end; r++) out[c * ld + r] = W[r * ldW + c];
            else
                for (i64 r = i; r < i_end; r++)
                    for (i64 c = j; c < j_end; c++) out[c * ld + r] = W[r * ldW + c];
        }
}

#define VRPCA_INSTANTIATE(T)                                                                                     \
    template void sweep(const T*, i64, const double*, T*, i64, i64, i64, i64, i64, double*, i64, T*, const T**); \
    template void transpose(const T*, i64, i64, i64, T*, i64);
VRPCA_INSTANTIATE(float)
VRPCA_INSTANTIATE(double)
#undef VRPCA_INSTANTIATE

}  // namespace VRPCA_ISA
}  // namespace vrpca
