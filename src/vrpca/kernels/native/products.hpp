// U += Z^T (Z W) in one reading of the data. The rows of Z are the z_i of rows.hpp.
// Included once per instruction set, so there is no include guard.
#include "column_sums.hpp"
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// U += sum over rows lo..hi of z (z^T W), for sparse rows. W and U are d x l, row-major, with rows ld apart. W is
// zero past column l. P (n x l, with rows ldP apart) receives Z W unless it is null. mW is m^T W, or null without a
// shift m. The kernel does not subtract the share of m from U. The caller does, with m tail^T: the kernel adds the sum
// of a b (z^T W) over the rows to tail. Numbers are multiplied in A, the type of W: that of the data, or double.
template <class T, class I, class A>
void product(const CsrRows<T, I>& rows, i64 lo, i64 hi, const A* W, const double* mW, i64 l, i64 ld, A* U, A* P,
             i64 ldP, double* tail);

// Rows lo..hi of U (d x l, with rows ldU apart) += the sum of `parts` matrices (d x ld) - m tail^T. m may be null.
template <class T>
void add_partials(const T* partial, i64 parts, i64 d, i64 lo, i64 hi, i64 l, i64 ld, const double* m,
                  const double* tail, T* U, i64 ldU);

// The same for dense rows. W and the sums are column-major: column c begins at c ld, where ld is column_length(d). W is
// zero past row d. The sums are in double. They are of x y^T, so the caller applies the column scale and the shift that
// the map leaves to it (see RowMap::late): then W is already multiplied by the column scale, and mW and tail are those
// of a shift. Otherwise mW is null. `room` has product_room(d, l) numbers. Where A is not the type of the data, nothing
// is left to the caller. The rows of X are added to `columns` on the way, unless it is null.
template <class T, class A>
void product(const DenseRows<T>& rows, i64 lo, i64 hi, const A* W, const double* mW, i64 l, double* sums, A* P,
             double* tail, A* room, ColumnSums<T>* columns);
template <class T>
i64 column_length(i64 d);
template <class T>
i64 product_room(i64 d, i64 l);

}  // namespace VRPCA_ISA
}  // namespace vrpca
