// How much room the kernels need. The caller allocates it. A panel is a matrix of d rows. It holds several blocks of
// columns side by side.
// Included once per instruction set, so there is no include guard.
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// Room for one mapped row. Sparse rows are never mapped.
template <class T, class I>
inline i64 row_size(const CsrRows<T, I>&) { return 1; }
template <class T>
inline i64 row_size(const DenseRows<T>& rows) { return rows.d; }

// The columns of a row-major matrix, padded for sparse rows: to 4, or to a multiple of 8. In float, 4 numbers fill a
// register of 16 bytes, and 8 numbers fill a register of 32 bytes.
inline i64 padded(i64 columns) { return columns <= 2 ? columns : columns <= 4 ? 4 : (columns + 7) / 8 * 8; }

// Room for a panel.
template <class T, class I>
inline i64 panel_size(const CsrRows<T, I>& rows, i64 columns) { return rows.d * padded(columns); }
template <class T>
inline i64 panel_size(const DenseRows<T>& rows, i64 columns) { return rows.d * columns; }

// The shift vector m if a kernel has to apply it to products, otherwise null. Sparse rows would fill in if m were
// subtracted from them. Dense rows have m subtracted when they are mapped.
template <class T, class I>
inline const double* lazy_shift(const CsrRows<T, I>& rows) { return rows.map.shift; }
template <class T>
inline const double* lazy_shift(const DenseRows<T>&) { return nullptr; }

// Columns of vr_block's panel: l for E, l for U, and one for a lazy shift.
template <class Rows>
inline i64 block_columns(const Rows& rows, i64 l) { return 2 * l + (lazy_shift(rows) ? 1 : 0); }
template <class Rows>
inline i64 block_panel_size(const Rows& rows, i64 l) { return panel_size(rows, block_columns(rows, l)); }

// Rows of W that vr_block converts to double at a time. More rows take more room in the cache. Fewer rows leave less
// time between the narrow stores of a row and the wide loads of the same row. Such a load has to wait until the
// stores have reached the cache.
constexpr i64 SMALL_ROWS = 32;

// Doubles for the small matrices and vectors of a block epoch: 4 matrices (l x l) and SMALL_ROWS + 5 vectors (l), all
// with rows padded to multiples of 4, and two vectors of 2 l + 16 numbers of type T. The sum is rounded up.
inline i64 small_size(i64 l) { return 4 * l * (l + 3) + (SMALL_ROWS + 16) * (l + 16); }

}  // namespace VRPCA_ISA
}  // namespace vrpca
