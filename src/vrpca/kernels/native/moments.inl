// The arithmetic of moments.hpp. Columns are summed in double, whatever T is.
#pragma once
#include "column_sums.inl"
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
        double a = row_factor(rows.map, i);
        norms[i] = a * a * squared_norm(rows, x, m, mm, row_shift(rows.map, i));
    }
}

constexpr int ROWS = 4;  // dense rows that are added at a time

// The row of largest weight, the first of several. Deviations from a row that hardly counts could be much larger than
// those from the mean.
inline i64 heaviest(const double* weight, i64 lo, i64 hi) {
    i64 row = lo;
    for (i64 i = lo; weight && i < hi; i++)
        if (weight[i] > weight[row]) row = i;
    return row;
}

template <class T>
ColumnSums<T> empty_sums(const DenseRows<T>& rows, i64 lo, i64 hi, const double* weight, double factor, double* mean,
                         double* M2) {
    for (i64 j = 0; j < rows.d; j++) mean[j] = M2[j] = 0;
    return {weight, factor, rows.X + heaviest(weight, lo, hi) * rows.d, mean, M2};  // deviations from this row
}

template <class T>
void finish(const ColumnSums<T>& sums, i64 d) {
    double *mean = sums.sum, *M2 = sums.squares;
    for (i64 j = 0; sums.total > 0 && j < d; j++) {
        const double t = mean[j] / sums.total;
        M2[j] = M2[j] - t * mean[j];
        mean[j] = sums.factor * double(sums.shift[j]) + t;
    }
}

template <class T>
void moments(const DenseRows<T>& rows, i64 lo, i64 hi, const double* weight, double factor, double* mean, double* M2,
             double*, double* total) {
    ColumnSums<T> sums = empty_sums(rows, lo, hi, weight, factor, mean, M2);
    for (i64 i = lo; i < hi; i += ROWS) add_rows<ROWS>(rows, i, hi, sums, true);
    finish(sums, rows.d);
    *total = sums.total;
}

// A column's cell has four numbers: the stored value v0 that came first, the weight of its stored values, the sum of v - v0 and
// the sum of (v - v0)^2, both weighted. Side by side they take half a cache line.
template <class T, class I>
void moments(const CsrRows<T, I>& rows, i64 lo, i64 hi, const double* weight, double factor, double* mean, double* M2,
             double* cells, double* total) {
    const i64 d = rows.d, before = heaviest(weight, lo, hi);  // this row comes before all others
    double W = 0;
    for (i64 s = 0; s < 4 * d; s++) cells[s] = 0;
    for (i64 j = 0; j < d; j++) mean[j] = M2[j] = 0;
    for (i64 step = lo; step < hi; step++) {
        const i64 i = step == lo ? before : step <= before ? step - 1 : step;
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

template <class T>
double squares(const DenseRows<T>& rows, i64 lo, i64 hi, const double* weight, double factor, double* sum) {
    ColumnSums<T> sums{weight, factor, nullptr, nullptr, sum};
    for (i64 i = lo; i < hi; i += ROWS) add_rows<ROWS>(rows, i, hi, sums, true);
    return sums.total;
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
#define VRPCA_INSTANTIATE(Rows)                                                                                     \
    template ColumnSums<Rows::T> empty_sums(const Rows&, i64, i64, const double*, double, double*, double*);        \
    template void finish(const ColumnSums<Rows::T>&, i64);
VRPCA_EACH_DENSE(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE

}  // namespace VRPCA_ISA
}  // namespace vrpca
