// The Gram matrix of dense rows that have few columns.
// Included once per instruction set, so there is no include guard.
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// The upper triangle of G += [Z r]^T [Z r] over rows lo..hi. r is one more column behind those of Z: the row scales
// without the unit. G is square with gram_side(d) rows. `strips` has room for gram_room(d) numbers. Numbers are
// multiplied in A, the type of the strips: that of the data, or double.
template <class T, class A>
void gram(const DenseRows<T>& rows, i64 lo, i64 hi, double* G, A* strips);
template <class A>
i64 gram_side(i64 d);
template <class A>
i64 gram_room(i64 d);

}  // namespace VRPCA_ISA
}  // namespace vrpca
