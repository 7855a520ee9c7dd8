// The arithmetic of products.hpp: first for sparse rows, then for dense rows with few columns, then for dense rows
// with many.
#pragma once
#include "chunks.inl"
#include "products.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// ------------------------------------------------------------------------------------------------- sparse rows

// The step between the two products of a row. On entry, y is x^T W for C columns from c on. Columns from l on are
// padding. On return, y is a times z^T W, and U += x y^T is left to do.
template <class T>
struct FusedStep {
    const double* mW;
    i64 l;
    T* P;
    double* tail;
    void operator()(T* y, int C, i64 c, i64 i, double a, double b) const {
        for (int s = 0; s < C && c + s < l; s++) {
            double yc = a * double(y[s]);
            if (mW) {
                yc -= a * b * mW[c + s];
                tail[c + s] += a * b * yc;
            }
            if (P) P[i * l + c + s] = T(yc);
            y[s] = T(a * yc);
        }
    }
};

// One row and one chunk of columns.
template <bool S, class T, class I>
struct FusedRow {
    const CsrRows<T, I>& rows;
    i64 i;
    const T* W;
    T* U;
    i64 ld;
    const FusedStep<T>& step;
    template <int C>
    void run(i64 c) {
        T y[C];
        const SparseRow<T, I> x = raw_row(rows, i);
        project_chunk<C, S>(x, rows.map.col_scale, W + c, ld, y);
        step(y, C, c, i, row_factor(rows.map, i), row_shift(rows.map, i));
        update_chunk<C, S>(x, rows.map.col_scale, y, U + c, ld);
    }
};

// y = x^T W and U += before h^T, in one loop. The two do not depend on each other, so the processor can overlap them.
template <int C, bool S, class T, class I>
inline void project_and_update(SparseRow<T, I> x, SparseRow<T, I> before, const T* scale, const T* W, T* U, i64 ld,
                               const Pack<T, C>& h, T* y) {
    Pack<T, C> s0, s1;
    s0.zero();
    s1.zero();
    const i64 both = (x.nnz < before.nnz ? x.nnz : before.nnz) & ~i64(1);
    i64 k = 0;
    for (; k < both; k += 2) {
        s0.add_scaled(value<S>(x, k, scale), W + i64(x.j[k]) * ld);
        s1.add_scaled(value<S>(x, k + 1, scale), W + i64(x.j[k + 1]) * ld);
        h.add_to(value<S>(before, k, scale), U + i64(before.j[k]) * ld);
        h.add_to(value<S>(before, k + 1, scale), U + i64(before.j[k + 1]) * ld);
    }
    for (i64 r = k; r + 1 < x.nnz; r += 2) {
        s0.add_scaled(value<S>(x, r, scale), W + i64(x.j[r]) * ld);
        s1.add_scaled(value<S>(x, r + 1, scale), W + i64(x.j[r + 1]) * ld);
    }
    if ((x.nnz - k) & 1) s0.add_scaled(value<S>(x, x.nnz - 1, scale), W + i64(x.j[x.nnz - 1]) * ld);
    for (; k < before.nnz; k++) h.add_to(value<S>(before, k, scale), U + i64(before.j[k]) * ld);
    s0.add(s1);
    s0.store(y);
}

// All rows, with all columns in one chunk. The update by a row shares a loop with the projection of the next row.
template <bool S, class T, class I>
struct FusedRows {
    const CsrRows<T, I>& rows;
    i64 lo, hi;
    const T* W;
    T* U;
    i64 ld;
    const FusedStep<T>& step;
    template <int C>
    void run(i64 c) {
        SparseRow<T, I> before{nullptr, nullptr, 0};
        T y[C];
        Pack<T, C> h;
        h.zero();
        for (i64 i = lo; i < hi; i++) {
            const SparseRow<T, I> x = raw_row(rows, i);
            project_and_update<C, S>(x, before, rows.map.col_scale, W, U, ld, h, y);
            step(y, C, c, i, row_factor(rows.map, i), row_shift(rows.map, i));
            h.load(y);
            before = x;
        }
        for (i64 k = 0; k < before.nnz; k++)
            h.add_to(value<S>(before, k, rows.map.col_scale), U + i64(before.j[k]) * ld);
    }
};

template <bool S, class T, class I>
void product_rows(const CsrRows<T, I>& rows, i64 lo, i64 hi, const T* W, const double* mW, i64 l, i64 ld, T* U, T* P,
                  double* tail) {
    const FusedStep<T> step{mW, l, P, tail};
    if (ld <= 4 || ld == 8 || ld == MAX_CHUNK) {  // one chunk has all columns
        for_chunks(ld, FusedRows<S, T, I>{rows, lo, hi, W, U, ld, step});
        return;
    }
    for (i64 i = lo; i < hi; i++) for_chunks(ld, FusedRow<S, T, I>{rows, i, W, U, ld, step});
}

template <class T, class I>
void product(const CsrRows<T, I>& rows, i64 lo, i64 hi, const T* W, const double* mW, i64 l, i64 ld, T* U, T* P,
             double* tail) {
    if (rows.map.col_scale) product_rows<true>(rows, lo, hi, W, mW, l, ld, U, P, tail);
    else product_rows<false>(rows, lo, hi, W, mW, l, ld, U, P, tail);
}

template <class T>
void add_partials(const T* partial, i64 parts, i64 d, i64 lo, i64 hi, i64 l, i64 ld, const double* m,
                  const double* tail, T* U) {
    if (!m && l == ld) {  // the matrices have the layout of U: each is one flat vector
        for (i64 p = 0; p < parts; p++)
#pragma omp simd
            for (i64 s = lo * l; s < hi * l; s++) U[s] += partial[p * d * l + s];
        return;
    }
    for (i64 j = lo; j < hi; j++)
        for (i64 c = 0; c < l; c++) {
            double u = m ? -m[j] * tail[c] : 0;
            for (i64 p = 0; p < parts; p++) u += double(partial[(p * d + j) * ld + c]);
            U[j * l + c] = T(double(U[j * l + c]) + u);
        }
}

// ------------------------------------------------------------------------------------- dense rows, few columns

// Ut[c] += sum over the rows of a tile of y[c][r] z_r, for C columns. An entry of a row is loaded once for all
// columns. The TILE products for an entry of Ut are summed in T. Their sum is added in double, so that rounding does
// not grow with the number of rows.
template <int C, class T>
inline void add_tile(const T* const* z, const T (*y)[TILE], i64 d, double* Ut) {
    const T *z0 = z[0], *z1 = z[1], *z2 = z[2], *z3 = z[3], *z4 = z[4], *z5 = z[5], *z6 = z[6], *z7 = z[7];
    const T* last = y[C - 1];
    double* ut = Ut + (C - 1) * d;
#pragma omp simd
    for (i64 j = 0; j < d; j++) {
        Ut[j] += double(((y[0][0] * z0[j] + y[0][1] * z1[j]) + (y[0][2] * z2[j] + y[0][3] * z3[j])) +
                        ((y[0][4] * z4[j] + y[0][5] * z5[j]) + (y[0][6] * z6[j] + y[0][7] * z7[j])));
        if (C == 2)
            ut[j] += double(((last[0] * z0[j] + last[1] * z1[j]) + (last[2] * z2[j] + last[3] * z3[j])) +
                            ((last[4] * z4[j] + last[5] * z5[j]) + (last[6] * z6[j] + last[7] * z7[j])));
    }
}

// y = Z W, then U += Z^T y, for the rows of a tile and C columns from c on. A tile of fewer rows repeats its last one
// with weight zero.
template <int C, class T>
inline void product_tile(const DenseRows<T>& rows, i64 i, i64 count, const T* const* z, const T* Wt, i64 c, i64 l,
                         double* Ut, T* P) {
    const i64 d = rows.d;
    const T* w[2] = {Wt + c * d, Wt + (c + C - 1) * d};
    T y[C][TILE], out[4 * C];
    for (i64 r = 0; r < TILE; r += 4) {
        dots<4, C>(z + r, w, d, out);
        for (i64 s = 0; s < 4; s++)
            for (i64 q = 0; q < C; q++) {
                if (r + s >= count) {
                    y[q][r + s] = 0;
                    continue;
                }
                double a = row_factor(rows.map, i + r + s), yc = a * double(out[s * C + q]);
                if (P) P[(i + r + s) * l + c + q] = T(yc);
                y[q][r + s] = T(a * yc);
            }
    }
    add_tile<C>(z, y, d, Ut + c * d);
}

template <class T>
void product(const DenseRows<T>& rows, i64 lo, i64 hi, const T* Wt, i64 l, double* Ut, T* P, T* tile) {
    for (i64 i = lo; i < hi; i += TILE) {
        const i64 count = hi - i < TILE ? hi - i : TILE;
        const T* z[TILE];
        for (i64 r = 0; r < TILE; r++) z[r] = r < count ? row_of(rows, i + r, tile + r * rows.d).z : z[count - 1];
        i64 c = 0;
        for (; c + 2 <= l; c += 2) product_tile<2>(rows, i, count, z, Wt, c, l, Ut, P);
        if (c < l) product_tile<1>(rows, i, count, z, Wt, c, l, Ut, P);
    }
}

// ------------------------------------------------------------------------------------ dense rows, many columns

// wide_product sums in T and adds the sums to totals in double after so many groups of rows. A group has 8 rows in
// float and 4 rows in double. A larger number costs less time for adding. A smaller number keeps rounding smaller.
constexpr i64 SUMMED = 32;

// Products with a row are summed over so many columns of X before they are added to the sum over all. That keeps
// rounding from growing with the length of a row, and costs about 1 addition in 256.
constexpr i64 SPAN = 256;

// y (R x WIDE) = Z W for R rows and the columns of one panel.
template <int R, class T>
inline void project_rows(const T* const* z, i64 d, const T* panel, T* y) {
    for (i64 lo = 0; lo < d || lo == 0; lo += SPAN) {
        const i64 hi = lo + SPAN < d ? lo + SPAN : d;
        Pack<T, WIDE> s[R];
        for (int r = 0; r < R; r++) s[r].zero();
        for (i64 j = lo; j < hi; j++)
            for (int r = 0; r < R; r++) s[r].add_scaled(z[r][j], panel + j * WIDE);
        for (int r = 0; r < R; r++) {
            if (lo) {
                Pack<T, WIDE> before;
                before.load(y + r * WIDE);
                s[r].add(before);
            }
            s[r].store(y + r * WIDE);
        }
    }
}

// One panel of U += Z^T y for R rows. Two sums run side by side, so that an addition does not have to wait for the
// addition before it.
template <int R, class T>
inline void update_rows(const T* const* z, i64 d, const T* y, T* panel) {
    Pack<T, WIDE> h[R];
    for (int r = 0; r < R; r++) h[r].load(y + r * WIDE);
    for (i64 j = 0; j < d; j++) {
        Pack<T, WIDE> even, odd;
        even.load(panel + j * WIDE);
        odd.zero();
        for (int r = 0; r < R; r += 2) {
            even.add_product(z[r][j], h[r]);
            odd.add_product(z[r + 1][j], h[r + 1]);
        }
        even.add(odd);
        even.store(panel + j * WIDE);
    }
}

template <class T>
void wide_product(const DenseRows<T>& rows, i64 lo, i64 hi, const T* panels, i64 l, T* sums, double* totals, T* P,
                  T* tile) {
    constexpr int R = 32 / int(sizeof(T));  // R sums of WIDE numbers take 8 registers of 32 bytes
    static_assert(R <= TILE, "the caller has room for TILE mapped rows");
    const i64 d = rows.d, count = (l + WIDE - 1) / WIDE, size = count * d * WIDE;
    for (i64 i = lo; i < hi; i += R) {
        const T* z[R];
        for (i64 r = 0; r < R; r++) z[r] = i + r < hi ? row_of(rows, i + r, tile + r * d).z : z[r - 1];
        for (i64 c = 0; c < count; c++) {
            T y[R * WIDE];
            project_rows<R>(z, d, panels + c * d * WIDE, y);
            for (i64 r = 0; r < R; r++)
                for (i64 s = 0; s < WIDE; s++) {
                    const double a = i + r < hi ? row_factor(rows.map, i + r) : 0, yc = a * double(y[r * WIDE + s]);
                    if (P && i + r < hi && c * WIDE + s < l) P[(i + r) * l + c * WIDE + s] = T(yc);
                    y[r * WIDE + s] = T(a * yc);  // zero for rows past the last one
                }
            update_rows<R>(z, d, y, sums + c * d * WIDE);
        }
        if ((i - lo) / R % SUMMED == SUMMED - 1 || i + R >= hi)
            for (i64 e = 0; e < size; e++) {
                totals[e] += double(sums[e]);
                sums[e] = 0;
            }
    }
}

#define VRPCA_INSTANTIATE(Rows)                                                                                       \
    template void product(const Rows&, i64, i64, const Rows::T*, const double*, i64, i64, Rows::T*, Rows::T*, double*);
VRPCA_EACH_CSR(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE

#define VRPCA_INSTANTIATE(Rows)                                                                                       \
    template void product(const Rows&, i64, i64, const Rows::T*, i64, double*, Rows::T*, Rows::T*);                   \
    template void wide_product(const Rows&, i64, i64, const Rows::T*, i64, Rows::T*, double*, Rows::T*, Rows::T*);    \
    template void add_partials(const Rows::T*, i64, i64, i64, i64, i64, i64, const double*, const double*, Rows::T*);
VRPCA_EACH_DENSE(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE

}  // namespace VRPCA_ISA
}  // namespace vrpca
