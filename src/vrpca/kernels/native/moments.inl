// The arithmetic of moments.hpp. Columns are summed in double, whatever T is.
#pragma once
#include "moments.hpp"
#include "rows.inl"

namespace vrpca {
namespace VRPCA_ISA {

template <class Rows>
void row_norms(const Rows& rows, double* norms, typename Rows::T* scratch) {
    const double* m = lazy_shift(rows);
    double mm = m ? inner(m, m, rows.d) : 0;
    for (i64 i = 0; i < rows.n; i++) {
        auto x = row_of(rows, i, scratch);
        double a = row_factor(rows.map, i), b = row_shift(rows.map, i), s = squared_norm(rows, x);
        if (m) s += b * (b * mm - 2 * dot_shift(rows, x, m));
        norms[i] = a * a * (s > 0 ? s : 0);
    }
}

// Four dense rows and their weights. Rows past `hi` have weight zero. The kernels take four rows at a time, so that
// they load and store an entry of their results once for four rows.
template <class T>
struct FourRows {
    const T* x[4];
    double w[4];
    FourRows(const DenseRows<T>& rows, i64 i, i64 hi, const double* weight) {
        for (i64 r = 0; r < 4; r++) {
            x[r] = rows.X + (i + r < hi ? i + r : i) * rows.d;
            w[r] = i + r >= hi ? 0.0 : weight ? weight[i + r] : 1.0;
        }
    }
    double total() const { return (w[0] + w[1]) + (w[2] + w[3]); }
};

// Adds factor * (x - shift), weighted, to `sum`, and its square to `squares`. Where all weights are 1, and the factor is
// 1 as well, `plain` leaves these multiplications out. The sums are the same.
template <bool plain, class T>
void add_four(const FourRows<T>& four, i64 d, const T* shift, double factor, double* sum, double* squares) {
    const T *x0 = four.x[0], *x1 = four.x[1], *x2 = four.x[2], *x3 = four.x[3];
    const double f = plain ? 1.0 : factor;
    const double w0 = plain ? 1.0 : four.w[0], w1 = plain ? 1.0 : four.w[1];
    const double w2 = plain ? 1.0 : four.w[2], w3 = plain ? 1.0 : four.w[3];
#pragma omp simd
    for (i64 j = 0; j < d; j++) {
        const double s = double(shift[j]);
        const double t0 = f * (double(x0[j]) - s), t1 = f * (double(x1[j]) - s);
        const double t2 = f * (double(x2[j]) - s), t3 = f * (double(x3[j]) - s);
        sum[j] += (w0 * t0 + w1 * t1) + (w2 * t2 + w3 * t3);
        squares[j] += (w0 * t0 * t0 + w1 * t1 * t1) + (w2 * t2 * t2 + w3 * t3 * t3);
    }
}

template <class T>
void moments(const DenseRows<T>& rows, i64 lo, i64 hi, const double* weight, double factor, double* mean, double* M2,
             double*, double* total) {
    const i64 d = rows.d;
    i64 first = lo;  // deviations are taken from the first row that has a weight
    while (weight && first + 1 < hi && weight[first] == 0) first++;
    const T* shift = rows.X + first * d;
    double W = 0;
    for (i64 j = 0; j < d; j++) mean[j] = M2[j] = 0;
    for (i64 i = lo; i < hi; i += 4) {
        const FourRows<T> four(rows, i, hi, weight);
        W += four.total();
        if (!weight && factor == 1 && i + 4 <= hi) add_four<true>(four, d, shift, factor, mean, M2);
        else add_four<false>(four, d, shift, factor, mean, M2);
    }
    if (W > 0)
        for (i64 j = 0; j < d; j++) {
            double t = mean[j] / W;
            M2[j] = M2[j] - t * mean[j];
            mean[j] = factor * double(shift[j]) + t;
        }
    *total = W;
}

// A column's cell has four numbers: its first stored value v0, the weight of its stored values, the sum of v - v0 and
// the sum of (v - v0)^2, both weighted. Side by side they take half a cache line.
template <class T, class I>
void moments(const CsrRows<T, I>& rows, i64 lo, i64 hi, const double* weight, double factor, double* mean, double* M2,
             double* cells, double* total) {
    i64 d = rows.d;
    double W = 0;
    for (i64 s = 0; s < 4 * d; s++) cells[s] = 0;
    for (i64 j = 0; j < d; j++) mean[j] = M2[j] = 0;
    for (i64 i = lo; i < hi; i++) {
        const SparseRow<T, I> x = raw_row(rows, i);
        double w = weight ? weight[i] : 1.0;
        W += w;
        for (i64 k = 0; k < x.nnz; k++) {
            double v = factor * double(x.v[k]);
            double* c = cells + 4 * i64(x.j[k]);
            if (w == 0) {
                M2[x.j[k]] += 0 * v;  // makes M2 nan where v is not finite
                continue;
            }
            if (c[1] == 0) c[0] = v;
            double t = v - c[0];
            c[1] += w;
            c[2] += w * t;
            c[3] += w * t * t;
        }
    }
    // Chan, Golub and LeVeque's formula merges the moments of a column's stored entries with those of its zeros.
    for (i64 j = 0; j < d; j++) {
        const double *c = cells + 4 * j, mass = c[1];
        if (mass == 0) continue;
        double t = c[2] / mass, stored = c[0] + t;
        M2[j] += c[3] - t * c[2] + mass * (W - mass) / W * stored * stored;
        mean[j] = stored * (mass / W);
    }
    *total = W;
}

// Adds the squares of factor * x, weighted, to `sum`. `plain` is as in add_four.
template <bool plain, class T>
void add_four_squares(const FourRows<T>& four, i64 d, double factor, double* sum) {
    const T *x0 = four.x[0], *x1 = four.x[1], *x2 = four.x[2], *x3 = four.x[3];
    const double f = plain ? 1.0 : factor;
    const double w0 = plain ? 1.0 : four.w[0], w1 = plain ? 1.0 : four.w[1];
    const double w2 = plain ? 1.0 : four.w[2], w3 = plain ? 1.0 : four.w[3];
#pragma omp simd
    for (i64 j = 0; j < d; j++) {
        const double v0 = f * double(x0[j]), v1 = f * double(x1[j]);
        const double v2 = f * double(x2[j]), v3 = f * double(x3[j]);
        sum[j] += (w0 * v0 * v0 + w1 * v1 * v1) + (w2 * v2 * v2 + w3 * v3 * v3);
    }
}

template <class T>
double squares(const DenseRows<T>& rows, i64 lo, i64 hi, const double* weight, double factor, double* sum) {
    double W = 0;
    for (i64 i = lo; i < hi; i += 4) {
        const FourRows<T> four(rows, i, hi, weight);
        W += four.total();
        if (!weight && factor == 1 && i + 4 <= hi) add_four_squares<true>(four, rows.d, factor, sum);
        else add_four_squares<false>(four, rows.d, factor, sum);
    }
    return W;
}

template <class T, class I>
double squares(const CsrRows<T, I>& rows, i64 lo, i64 hi, const double* weight, double factor, double* sum) {
    double W = 0;
    for (i64 i = lo; i < hi; i++) {
        const SparseRow<T, I> x = raw_row(rows, i);
        const double w = weight ? weight[i] : 1.0;
        W += w;
        for (i64 k = 0; k < x.nnz; k++) {
            const double v = factor * double(x.v[k]);
            sum[x.j[k]] += w * (v * v);
        }
    }
    return W;
}

#define VRPCA_INSTANTIATE(Rows)                                                                               \
    template void row_norms(const Rows&, double*, Rows::T*);                                                  \
    template void moments(const Rows&, i64, i64, const double*, double, double*, double*, double*, double*);  \
    template double squares(const Rows&, i64, i64, const double*, double, double*);
VRPCA_EACH_ROWS(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE

}  // namespace VRPCA_ISA
}  // namespace vrpca
