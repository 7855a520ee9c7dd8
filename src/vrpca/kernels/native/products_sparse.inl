// The arithmetic of products.hpp for sparse rows.
#pragma once
#include "chunks.inl"
#include "products.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// The step between the two products of a row. On entry, y is x^T W for C columns from c on. Columns from l on are
// padding. On return, y is a times z^T W, and U += x y^T is left to do.
template <class A>
struct FusedStep {
    const double* mW;
    i64 l;
    A* P;
    i64 ldP;
    double* tail;
    template <int C>
    void run(A* y, i64 c, i64 i, double a, double b) const {
        if (!mW && !P) {  // padding is zero, and stays so
#pragma omp simd
            for (int s = 0; s < C; s++) y[s] = A(a * (a * double(y[s])));
            return;
        }
        if (c + C <= l) map<C>(y, C, c, i, a, b);
        else map<C>(y, l - c, c, i, a, b);
    }

private:
    // The first `count` of C columns. It is inlined, so that the compiler knows the number where it is C.
    template <int C>
    __attribute__((always_inline)) void map(A* y, i64 count, i64 c, i64 i, double a, double b) const {
        double yc[C];
        if (mW)
#pragma omp simd
            for (i64 s = 0; s < count; s++) yc[s] = a * double(y[s]) - a * b * mW[c + s];
        else
#pragma omp simd
            for (i64 s = 0; s < count; s++) yc[s] = a * double(y[s]);
        if (P)
#pragma omp simd
            for (i64 s = 0; s < count; s++) P[i * ldP + c + s] = A(yc[s]);
#pragma omp simd
        for (i64 s = 0; s < count; s++) y[s] = A(a * yc[s]);
        if (mW)  // of the rounded number, so that what U gets along m cancels
#pragma omp simd
            for (i64 s = 0; s < count; s++) tail[c + s] += b * double(y[s]);
    }
};

// One row and one chunk of columns.
template <bool S, class A, class T, class I>
struct FusedRow {
    const CsrRows<T, I>& rows;
    i64 i;
    const A* W;
    A* U;
    i64 ld;
    const FusedStep<A>& step;
    template <int C>
    void run(i64 c) {
        A y[C];
        const SparseRow<T, I> x = raw_row(rows, i);
        project_chunk<C, S>(x, rows.map.col_scale, W + c, ld, y);
        step.template run<C>(y, c, i, row_factor(rows.map, i), row_shift(rows.map, i));
        update_chunk<C, S>(x, rows.map.col_scale, y, U + c, ld);
    }
};

// y = x^T W and U += before h^T, in one loop. The two do not depend on each other, so the processor can overlap them.
// W and U have C columns and no others. It is always inlined: otherwise h would be loaded once more for every entry.
template <int C, bool S, class A, class T, class I>
__attribute__((always_inline)) inline void project_and_update(SparseRow<T, I> x, SparseRow<T, I> before, const T* scale,
                                                              const A* W, A* U, const Pack<A, C>& h, A* y) {
    Pack<A, C> s0, s1;
    s0.zero();
    s1.zero();
    const i64 both = (x.nnz < before.nnz ? x.nnz : before.nnz) & ~i64(1);
    i64 k = 0;
    for (; k < both; k += 2) {
        s0.add_scaled(value<S, A>(x, k, scale), W + i64(x.j[k]) * C);
        s1.add_scaled(value<S, A>(x, k + 1, scale), W + i64(x.j[k + 1]) * C);
        h.add_to(value<S, A>(before, k, scale), U + i64(before.j[k]) * C);
        h.add_to(value<S, A>(before, k + 1, scale), U + i64(before.j[k + 1]) * C);
    }
    for (i64 r = k; r + 1 < x.nnz; r += 2) {
        s0.add_scaled(value<S, A>(x, r, scale), W + i64(x.j[r]) * C);
        s1.add_scaled(value<S, A>(x, r + 1, scale), W + i64(x.j[r + 1]) * C);
    }
    if ((x.nnz - k) & 1) s0.add_scaled(value<S, A>(x, x.nnz - 1, scale), W + i64(x.j[x.nnz - 1]) * C);
    for (; k < before.nnz; k++) h.add_to(value<S, A>(before, k, scale), U + i64(before.j[k]) * C);
    s0.add(s1);
    s0.store(y);
}

// Rows that are prefetched at a time, while as many before them are multiplied. A loop over the lines of every single
// row would end at another line each time, and the processor would guess wrongly: that costs as much as it saves.
constexpr i64 ROWS_AHEAD = 8;

// Whether that pays, by the bytes of a row of W. With RCV1 it saves a tenth of the time with 1 to 8 doubles. Wider rows
// keep the memory busy by themselves, and a single float takes less time than prefetching would save: both lose some.
constexpr bool prefetched(int bytes) { return bytes >= 8 && bytes <= 64; }

// Asks for the entries of ROWS_AHEAD rows, beginning with row i, but none from row `hi` on.
template <class T, class I>
inline void prefetch_entries(const CsrRows<T, I>& rows, i64 i, i64 hi) {
    if (i >= hi) return;
    const i64 from = rows.indptr[i], to = rows.indptr[i + ROWS_AHEAD < hi ? i + ROWS_AHEAD : hi];
    prefetch_second(rows.indices + from, 0, (to - from) * i64(sizeof(I)));
    prefetch_second(rows.data + from, 0, (to - from) * i64(sizeof(T)));
}

// All rows, with all columns in one chunk. The update by a row shares a loop with the projection of the next row.
template <bool S, class A, class T, class I>
struct FusedRows {
    const CsrRows<T, I>& rows;
    i64 lo, hi;
    const A* W;
    A* U;
    const FusedStep<A>& step;
    template <int C>
    void run() {
        constexpr bool ahead = prefetched(C * int(sizeof(A)));
        SparseRow<T, I> before{nullptr, nullptr, 0};
        A y[C];
        Pack<A, C> h;
        h.zero();
        for (i64 i = lo; i < hi; i++) {
            if (ahead && (i - lo) % ROWS_AHEAD == 0) prefetch_entries(rows, i + ROWS_AHEAD, hi);
            const SparseRow<T, I> x = raw_row(rows, i);
            project_and_update<C, S>(x, before, rows.map.col_scale, W, U, h, y);
            step.template run<C>(y, 0, i, row_factor(rows.map, i), row_shift(rows.map, i));
            h.load(y);
            before = x;
        }
        for (i64 k = 0; k < before.nnz; k++)
            h.add_to(value<S, A>(before, k, rows.map.col_scale), U + i64(before.j[k]) * C);
    }
};

// Calls f.run<columns>(), if all columns fit in one chunk. These are the widths that callers have most: those that
// `padded` makes, and 12, which is whole registers in double.
template <class F>
inline bool in_one_chunk(i64 columns, F&& f) {
    if (columns == 1) f.template run<1>();
    else if (columns == 2) f.template run<2>();
    else if (columns == 4) f.template run<4>();
    else if (columns == 8) f.template run<8>();
    else if (columns == 12) f.template run<12>();
    else if (columns == 16) f.template run<16>();
    else if (columns == 24) f.template run<24>();
    else if (columns == 32) f.template run<32>();
    else return false;
    return true;
}

template <bool S, class A, class T, class I>
void product_rows(const CsrRows<T, I>& rows, i64 lo, i64 hi, const A* W, const double* mW, i64 l, i64 ld, A* U, A* P,
                  i64 ldP, double* tail) {
    const FusedStep<A> step{mW, l, P, ldP, tail};
    if (in_one_chunk(ld, FusedRows<S, A, T, I>{rows, lo, hi, W, U, step})) return;
    for (i64 i = lo; i < hi; i++) for_chunks(ld, FusedRow<S, A, T, I>{rows, i, W, U, ld, step});
}

template <class T, class I, class A>
void product(const CsrRows<T, I>& rows, i64 lo, i64 hi, const A* W, const double* mW, i64 l, i64 ld, A* U, A* P,
             i64 ldP, double* tail) {
    if (rows.map.col_scale) product_rows<true>(rows, lo, hi, W, mW, l, ld, U, P, ldP, tail);
    else product_rows<false>(rows, lo, hi, W, mW, l, ld, U, P, ldP, tail);
}

// u += v, for l numbers. Most rows have MAX_CHUNK of them, so that number is known to the compiler.
template <class T>
inline void add_row(const T* v, i64 l, T* u) {
    i64 c = 0;
    for (; c + MAX_CHUNK <= l; c += MAX_CHUNK)
#pragma omp simd
        for (int s = 0; s < MAX_CHUNK; s++) u[c + s] += v[c + s];
#pragma omp simd
    for (i64 s = c; s < l; s++) u[s] += v[s];
}

template <class T>
void add_partials(const T* partial, i64 parts, i64 d, i64 lo, i64 hi, i64 l, i64 ld, const double* m,
                  const double* tail, T* U, i64 ldU) {
    if (!m && l == ld && l == ldU) {  // the matrices have the layout of U: each is one flat vector
        for (i64 p = 0; p < parts; p++)
#pragma omp simd
            for (i64 s = lo * l; s < hi * l; s++) U[s] += partial[p * d * l + s];
        return;
    }
    if (!m) {
        for (i64 j = lo; j < hi; j++)
            for (i64 p = 0; p < parts; p++) add_row(partial + (p * d + j) * ld, l, U + j * ldU);
        return;
    }
    for (i64 j = lo; j < hi; j++)
        for (i64 first = 0; first < l; first += MAX_CHUNK) {
            const i64 count = l - first < MAX_CHUNK ? l - first : MAX_CHUNK;
            double sum[MAX_CHUNK];  // U and what is added to it along m may be much larger than the result
            T* u = U + j * ldU + first;
#pragma omp simd
            for (i64 c = 0; c < count; c++) sum[c] = double(u[c]) - m[j] * tail[first + c];
            for (i64 p = 0; p < parts; p++)
#pragma omp simd
                for (i64 c = 0; c < count; c++) sum[c] += double(partial[(p * d + j) * ld + first + c]);
#pragma omp simd
            for (i64 c = 0; c < count; c++) u[c] = T(sum[c]);
        }
}

#define VRPCA_INSTANTIATE(Rows)                                                                                    \
    template void product(const Rows&, i64, i64, const Rows::T*, const double*, i64, i64, Rows::T*, Rows::T*, i64, \
                          double*);
VRPCA_EACH_CSR(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE
#define VRPCA_INSTANTIATE(Rows)                                                                                 \
    template void product(const Rows&, i64, i64, const double*, const double*, i64, i64, double*, double*, i64, \
                          double*);
VRPCA_INSTANTIATE(CsrRowsF32I32)
VRPCA_INSTANTIATE(CsrRowsF32I64)
#undef VRPCA_INSTANTIATE

#define VRPCA_INSTANTIATE(Rows)                                                                                      \
    template void add_partials(const Rows::T*, i64, i64, i64, i64, i64, i64, const double*, const double*, Rows::T*, \
                               i64);
VRPCA_EACH_DENSE(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE

}  // namespace VRPCA_ISA
}  // namespace vrpca
