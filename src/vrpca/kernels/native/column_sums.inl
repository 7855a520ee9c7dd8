// The arithmetic of column_sums.hpp: a few rows at a time, so that the sums of a column are loaded and stored once for
// all of them. Columns are summed in double, whatever T is.
#pragma once
#include "column_sums.hpp"
#include "simd.inl"

namespace vrpca {
namespace VRPCA_ISA {

// R rows and their weights. Rows past `hi` have weight zero.
template <int R, class T>
struct WeightedRows {
    const T* x[R];
    double w[R];
    WeightedRows(const DenseRows<T>& rows, i64 i, i64 hi, const double* weight) {
        for (i64 r = 0; r < R; r++) {
            x[r] = rows.X + (i + r < hi ? i + r : i) * rows.d;
            w[r] = i + r >= hi ? 0.0 : weight ? weight[i + r] : 1.0;
        }
    }
};

// Adds columns lo..hi of some rows. Where all weights are 1, and the factor is 1 as well, `plain` leaves these
// multiplications out.
template <bool plain, bool shifted, int R, class T>
inline void add_weighted(const WeightedRows<R, T>& rows, i64 lo, i64 hi, const ColumnSums<T>& sums) {
    static_assert(R % 2 == 0, "rows are added in pairs");
    const T* shift = sums.shift;
    double *sum = sums.sum, *squares = sums.squares;
    const double f = plain ? 1.0 : sums.factor;
    const WeightedRows<R, T> own = rows;  // a copy: the compiler knows that `sum` does not point into it
#pragma omp simd
    for (i64 j = lo; j < hi; j++) {
        const double s = shifted ? double(shift[j]) : 0.0;
        double first = 0, second = 0;
        for (int r = 0; r < R; r += 2) {
            const double w0 = plain ? 1.0 : own.w[r], w1 = plain ? 1.0 : own.w[r + 1];
            const double t0 = f * (double(own.x[r][j]) - s), t1 = f * (double(own.x[r + 1][j]) - s);
            first += w0 * t0 + w1 * t1;
            second += w0 * t0 * t0 + w1 * t1 * t1;
        }
        if (shifted) sum[j] += first;
        squares[j] += second;
    }
}

template <int R, class T>
inline void add_columns(const WeightedRows<R, T>& rows, bool plain, i64 lo, i64 hi, const ColumnSums<T>& sums) {
    if (plain && sums.shift) add_weighted<true, true>(rows, lo, hi, sums);
    else if (plain) add_weighted<true, false>(rows, lo, hi, sums);
    else if (sums.shift) add_weighted<false, true>(rows, lo, hi, sums);
    else add_weighted<false, false>(rows, lo, hi, sums);
}

// Bytes between what is added and what is prefetched: R rows, but at least so many. R rows of 100 columns are added
// before the next ones could come from memory.
constexpr i64 LEAST_AHEAD = 1 << 14;

// Adds R rows from row i on, but none from row `hi` on. With `ahead`, later rows are prefetched meanwhile.
template <int R, class T>
inline void add_rows(const DenseRows<T>& rows, i64 i, i64 hi, ColumnSums<T>& sums, bool ahead) {
    constexpr i64 columns = 1024 / i64(sizeof(T));  // at a time: 1 kB of each row
    const i64 size = R * rows.d * i64(sizeof(T)), distance = size > LEAST_AHEAD ? size : LEAST_AHEAD;
    const WeightedRows<R, T> some(rows, i, hi, sums.weight);
    for (int r = 0; r < R; r++) sums.total += some.w[r];
    const bool plain = !sums.weight && sums.factor == 1 && i + R <= hi;
    for (i64 lo = 0; lo < rows.d; lo += columns) {
        const i64 end = lo + columns < rows.d ? lo + columns : rows.d;
        for (i64 r = 0; ahead && r < R; r++)
            prefetch_second(rows.X + (i + r < hi ? i + r : i) * rows.d + lo, distance, (end - lo) * i64(sizeof(T)));
        add_columns(some, plain, lo, end, sums);
    }
}

}  // namespace VRPCA_ISA
}  // namespace vrpca
