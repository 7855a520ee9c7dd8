// The Gram matrix of dense rows that have few columns.
// Included once per instruction set, so there is no include guard.
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// The upper triangle of G += Z^T Z over rows lo..hi. Numbers are multiplied in A, the type of the strips: that of the
// data, or double. G is square with gram_side(d) rows. `strips` has room for gram_room(d) numbers, `sums` for six times
// gram_side(d). On return, the first gram_side(d) of `sums` are Z^T r, with the row scales r without the unit, and the
// next ones are the squares of the columns of Z. Both are of numbers that were not rounded to A, and summed in double.
template <class T, class A>
void gram(const DenseRows<T>& rows, i64 lo, i64 hi, double* G, double* sums, A* strips);
template <class A>
i64 gram_side(i64 d);
template <class A>
i64 gram_room(i64 d);

}  // namespace VRPCA_ISA
}  // namespace vrpca
