// How the kernels read rows. The functions have one overload for sparse rows and one for dense rows. Most kernels
// call them and are written once for both kinds.
#pragma once
#include "algebra.inl"
#include "sizes.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// The epochs visit rows in random order. A row is prefetched so many steps before its own step. A larger number gives
// the memory more time. A smaller number leaves more of the cache to the other data.
constexpr i64 AHEAD = 8;  // sparse rows, and the two ends of dense rows
constexpr i64 NEXT = 2;   // dense rows; they are longer, so that few of them fill the cache

// The most bytes of a row that prefetch_row asks for. The rest of a long row is left to the processor's own
// prefetcher.
constexpr i64 SPARSE_BYTES = 1024;  // of the indices, and as many of the values
constexpr i64 DENSE_BYTES = 8192;

// The parts of the map of row i: its scale, a (the scale times the unit) and b.
template <class T>
inline double row_scale(const RowMap<T>& map, i64 i) { return map.row_scale ? map.row_scale[i] : 1.0; }
template <class T>
inline double row_factor(const RowMap<T>& map, i64 i) { return map.unit * row_scale(map, i); }
template <class T>
inline double row_shift(const RowMap<T>& map, i64 i) { return map.row_shift ? map.row_shift[i] : 1.0; }

// ------------------------------------------------------------------------------------------------- sparse rows

// The stored entries of a row: column numbers j, values v.
template <class T, class I>
struct SparseRow {
    const I* j;
    const T* v;
    i64 nnz;
};

template <class T, class I>
inline SparseRow<T, I> raw_row(const CsrRows<T, I>& rows, i64 i) {
    i64 lo = rows.indptr[i];
    return {rows.indices + lo, rows.data + lo, i64(rows.indptr[i + 1]) - lo};
}

// Entry k of the row, in A. S says whether there is a column scale.
template <bool S, class A, class T, class I>
inline A value(SparseRow<T, I> x, i64 k, const T* scale) {
    return S ? A(x.v[k]) * A(scale[x.j[k]]) : A(x.v[k]);
}

// |x * s - b m|^2, where mm = |m|^2; m may be null. Means may be larger than deviations by almost all digits of T. So
// they are subtracted before anything is squared, in double. What is left for entries that are not stored is b m alone.
template <class T, class I>
inline double squared_norm(const CsrRows<T, I>& rows, const SparseRow<T, I>& x, const double* m, double mm, double b) {
    const T* s = rows.map.col_scale;
    double stored = 0, means = 0;
    for (i64 k = 0; k < x.nnz; k++) {
        const double v = s ? value<true, double>(x, k, s) : double(x.v[k]), c = m ? b * m[x.j[k]] : 0;
        stored += (v - c) * (v - c);
        means += c * c;
    }
    const double rest = x.nnz < rows.d ? b * b * mm - means : 0;
    return stored + (rest > 0 ? rest : 0);
}

template <class T, class I>
inline void prefetch_row(const CsrRows<T, I>& rows, i64 i) {
    i64 lo = rows.indptr[i], hi = rows.indptr[i + 1];
    prefetch_range(rows.indices + lo, rows.indices + hi, SPARSE_BYTES);
    prefetch_range(rows.data + lo, rows.data + hi, SPARSE_BYTES);
}

// -------------------------------------------------------------------------------------------------- dense rows

template <class T>
struct DenseRow {
    const T* z;
};

template <class T>
inline DenseRow<T> raw_row(const DenseRows<T>& rows, i64 i) { return {rows.X + i * rows.d}; }

// Whether row_of has to compute a row before it can be used.
template <class T>
inline bool mapped(const DenseRows<T>& rows) { return rows.map.col_scale || rows.map.shift; }

// out = x * s - b m. With a shift it is computed in double, because a large mean must cancel before the result is
// rounded to float. The loop also prefetches the first half of the row `next`. DensePanel::advance prefetches the
// other half.
template <class T>
inline void map_row(const DenseRows<T>& rows, i64 i, T* out, const T* next) {
    using Four = Lanes<T, 4 * sizeof(T)>;
    constexpr i64 line = 64 / i64(sizeof(T));  // numbers in a cache line
    const T* x = rows.X + i * rows.d;
    const T* s = rows.map.col_scale;
    const double* m = rows.map.shift;
    const double b = row_shift(rows.map, i);
    const i64 d = rows.d;
    i64 j = 0;
    if (!m) {
#pragma omp simd
        for (i64 k = 0; k < d; k++) out[k] = x[k] * s[k];
        return;
    }
    for (; j + 4 <= d; j += 4) {
        if (j % (2 * line) == 0) prefetch(next + j / 2);
        Quad::V z = __builtin_convertvector(Four::get(x + j), Quad::V);
        if (s) z *= __builtin_convertvector(Four::get(s + j), Quad::V);
        Four::put(out + j, __builtin_convertvector(z - b * Quad::get(m + j), typename Four::V));
    }
    for (; j < d; j++) out[j] = T(double(x[j]) * (s ? double(s[j]) : 1.0) - b * m[j]);
}

// out = x * s - b m of row i, in double: nothing is rounded to float.
template <bool scaled, bool shifted>
inline void widen_entries(const DenseRows<float>& rows, i64 i, double* out) {
    const float *x = rows.X + i * rows.d, *s = rows.map.col_scale;
    const double *m = rows.map.shift, b = row_shift(rows.map, i);
#pragma omp simd
    for (i64 e = 0; e < rows.d; e++) {
        double v = double(x[e]);
        if (scaled) v *= double(s[e]);
        if (shifted) v -= b * m[e];
        out[e] = v;
    }
}
inline void widen(const DenseRows<float>& rows, i64 i, double* out) {
    const bool scaled = rows.map.col_scale, shifted = rows.map.shift;
    if (scaled && shifted) widen_entries<true, true>(rows, i, out);
    else if (scaled) widen_entries<true, false>(rows, i, out);
    else if (shifted) widen_entries<false, true>(rows, i, out);
    else widen_entries<false, false>(rows, i, out);
}

// The same for dense rows: row_of has subtracted the shift.
template <class T>
inline double squared_norm(const DenseRows<T>& rows, const DenseRow<T>& x, const double*, double, double) {
    return dot(x.z, x.z, rows.d);
}

template <class T>
inline void prefetch_row(const DenseRows<T>& rows, i64 i) {
    const T* x = rows.X + i * rows.d;
    prefetch_range(x, x + rows.d, DENSE_BYTES);
}

// -------------------------------------------------------------------------------------------------- both kinds

// Row i as the kernels want it. A dense row is written to `scratch` if it has to be mapped. A sparse row stays as it
// is: `value` applies its column scale, and the kernel applies its shift. `next` is a raw row of a later step.
template <class T, class I>
inline SparseRow<T, I> row_of(const CsrRows<T, I>& rows, i64 i, T*, const SparseRow<T, I>&) { return raw_row(rows, i); }
template <class T>
inline DenseRow<T> row_of(const DenseRows<T>& rows, i64 i, T* scratch, const DenseRow<T>& next) {
    if (!mapped(rows)) return raw_row(rows, i);
    map_row(rows, i, scratch, next.z);
    return {scratch};
}
template <class Rows>
inline auto row_of(const Rows& rows, i64 i, typename Rows::T* scratch) {
    return row_of(rows, i, scratch, raw_row(rows, i));
}

// Prefetches the row of step t + AHEAD. A sparse row is prefetched as a whole. Of a dense row only the two ends are,
// because finding its pages takes as long as reading them. The rest of a dense row follows NEXT steps before its own
// step.
template <class T, class I>
inline void prefetch_far(const CsrRows<T, I>& rows, const i64* order, i64 t, i64 m) {
    if (t + AHEAD < m) prefetch_row(rows, order[t + AHEAD]);
}
template <class T>
inline void prefetch_far(const DenseRows<T>& rows, const i64* order, i64 t, i64 m) {
    if (t + AHEAD < m) {
        const T* x = raw_row(rows, order[t + AHEAD]).z;
        prefetch(x);
        prefetch(x + rows.d - 1);
    }
}

// How many steps before its own step a whole row is prefetched.
template <class T, class I>
constexpr i64 ahead(const CsrRows<T, I>&) { return AHEAD; }
template <class T>
constexpr i64 ahead(const DenseRows<T>&) { return NEXT; }

}  // namespace VRPCA_ISA
}  // namespace vrpca
