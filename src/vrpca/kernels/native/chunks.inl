// Products of a sparse row with a chunk of columns of a row-major matrix, and updates of such a chunk. The width of a
// chunk is a template argument, so that its sums stay in registers.
#pragma once
#include "rows.inl"

namespace vrpca {
namespace VRPCA_ISA {

// The widest chunk. project_chunk has four sums of this width. In double, they fill the 16 registers of AVX2, or half of
// those of AVX-512.
constexpr int MAX_CHUNK = 16;

// out[c] = x . column c for C columns. Returns |x|^2. The compiler leaves that out where the caller does not use it.
// Four sums run side by side, so that an addition does not have to wait for the addition before it.
template <int C, bool S, class A, class T, class I>
inline A project_chunk(SparseRow<T, I> x, const T* scale, const A* panel, i64 ld, A* out) {
    Pack<A, C> s0, s1, s2, s3;
    s0.zero();
    s1.zero();
    s2.zero();
    s3.zero();
    A n0 = 0, n1 = 0;
    i64 k = 0;
    for (; k + 3 < x.nnz; k += 4) {
        const A v0 = value<S, A>(x, k, scale), v1 = value<S, A>(x, k + 1, scale);
        const A v2 = value<S, A>(x, k + 2, scale), v3 = value<S, A>(x, k + 3, scale);
        s0.add_scaled(v0, panel + i64(x.j[k]) * ld);
        s1.add_scaled(v1, panel + i64(x.j[k + 1]) * ld);
        s2.add_scaled(v2, panel + i64(x.j[k + 2]) * ld);
        s3.add_scaled(v3, panel + i64(x.j[k + 3]) * ld);
        n0 += v0 * v0 + v1 * v1;
        n1 += v2 * v2 + v3 * v3;
    }
    for (; k < x.nnz; k++) {
        const A v = value<S, A>(x, k, scale);
        s0.add_scaled(v, panel + i64(x.j[k]) * ld);
        n0 += v * v;
    }
    s0.add(s1);
    s2.add(s3);
    s0.add(s2);
    s0.store(out);
    return n0 + n1;
}

// column c += h[c] x for C columns.
template <int C, bool S, class A, class T, class I>
inline void update_chunk(SparseRow<T, I> x, const T* scale, const A* h, A* panel, i64 ld) {
    Pack<A, C> step;
    step.load(h);
    for (i64 k = 0; k < x.nnz; k++) step.add_to(value<S, A>(x, k, scale), panel + i64(x.j[k]) * ld);
}

// Calls f.run<width>(c) for one chunk of columns after the other, until all columns are covered. c is the first
// column of a chunk. Chunks are as wide as possible. Chunks of fewer than 4 columns are slow, so most callers pad
// their matrices (see `padded`).
template <class F>
inline void for_chunks(i64 columns, F&& f) {
    i64 c = 0;
    while (c < columns) {
        i64 left = columns - c;
        if (left >= MAX_CHUNK) { f.template run<MAX_CHUNK>(c); c += MAX_CHUNK; }
        else if (left >= 8) { f.template run<8>(c); c += 8; }
        else if (left >= 4) { f.template run<4>(c); c += 4; }
        else if (left == 3) { f.template run<3>(c); c += 3; }
        else if (left == 2) { f.template run<2>(c); c += 2; }
        else { f.template run<1>(c); c += 1; }
    }
}

}  // namespace VRPCA_ISA
}  // namespace vrpca
