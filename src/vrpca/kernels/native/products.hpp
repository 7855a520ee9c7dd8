// U += Z^T (Z W) in one reading of the data. The rows of Z are the z_i of rows.hpp.
// Included once per instruction set, so there is no include guard.
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// U += sum over rows lo..hi of z (z^T W), for sparse rows. W and U are d x l, row-major, with rows ld apart. W is
// zero past column l. P (n x l) receives Z W unless it is null. mW is m^T W, or null without a shift m. The kernel
// does not subtract the share of m from U. The caller does, with m tail^T: the kernel adds the sum of a b (z^T W)
// over the rows to tail.
template <class T, class I>
void product(const CsrRows<T, I>& rows, i64 lo, i64 hi, const T* W, const double* mW, i64 l, i64 ld, T* U, T* P,
             double* tail);

// Rows lo..hi of U (d x l) += the sum of `parts` matrices (d x ld) - m tail^T. m may be null.
template <class T>
void add_partials(const T* partial, i64 parts, i64 d, i64 lo, i64 hi, i64 l, i64 ld, const double* m,
                  const double* tail, T* U);

// Dense rows that are multiplied together. An entry of W or U is loaded once for all of them. The arithmetic is
// written out for eight rows. The caller provides room for TILE mapped rows.
constexpr i64 TILE = 8;

// U += sum over rows lo..hi of z (z^T W), for dense rows. W and U are column-major (l x d). U is in double.
template <class T>
void product(const DenseRows<T>& rows, i64 lo, i64 hi, const T* Wt, i64 l, double* Ut, T* P, T* tile);

// The width of a panel of wide_product. Eight floats fill one register of 32 bytes, eight doubles fill two.
constexpr i64 WIDE = 8;

// The same for more columns. W is split into panels of WIDE columns each, one panel after the other. The last panel
// is padded with zeros. `sums` and `totals` have the layout of W. `sums` must be zero, and is zero again in the end.
// The result is added to `totals`.
template <class T>
void wide_product(const DenseRows<T>& rows, i64 lo, i64 hi, const T* panels, i64 l, T* sums, double* totals, T* P,
                  T* tile);

}  // namespace VRPCA_ISA
}  // namespace vrpca
