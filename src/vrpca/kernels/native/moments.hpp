// Statistics of the data from one reading: means, deviations and squares of columns, and squared norms of rows.
// Included once per instruction set, so there is no include guard.
#include "column_sums.hpp"
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// norms[i] = |z_i|^2.
template <class Rows>
void row_norms(const Rows& rows, double* norms, typename Rows::T* scratch);

// How many numbers `moments` needs in `cells`.
template <class T>
inline i64 cells_size(const DenseRows<T>&) { return 0; }
template <class T, class I>
inline i64 cells_size(const CsrRows<T, I>& rows) { return 4 * rows.d; }

// Weighted mean and weighted sum of squared deviations of factor * x, for every column, over rows lo..hi. `total`
// receives the weight of the rows. Values are taken relative to a value of the same column, so that one reading does
// not lose digits to a large mean.
template <class T>
void moments(const DenseRows<T>& rows, i64 lo, i64 hi, const double* weight, double factor, double* mean, double* M2,
             double* cells, double* total);
template <class T, class I>
void moments(const CsrRows<T, I>& rows, i64 lo, i64 hi, const double* weight, double factor, double* mean, double* M2,
             double* cells, double* total);

// The same for dense rows that someone else adds: sums of none of the rows lo..hi yet, and from sums to moments. The
// sums are made in `mean` and `M2`.
template <class T>
ColumnSums<T> empty_sums(const DenseRows<T>& rows, i64 lo, i64 hi, const double* weight, double factor, double* mean,
                         double* M2);
template <class T>
void finish(const ColumnSums<T>& sums, i64 d);

// sum += the weighted squares of factor * x, for every column, over rows lo..hi. Returns the weight of the rows.
template <class T>
double squares(const DenseRows<T>& rows, i64 lo, i64 hi, const double* weight, double factor, double* sum);
template <class T, class I>
double squares(const CsrRows<T, I>& rows, i64 lo, i64 hi, const double* weight, double factor, double* sum);

}  // namespace VRPCA_ISA
}  // namespace vrpca
