// Small linear algebra on tall row-major matrices, summed in double, on one thread: these run between the products,
// where a threaded BLAS costs more in waking its threads than the work takes. NumPy twins: reference.py.
// Included once per instruction set, so no include guard.
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// Doubles of scratch that each of these needs, for matrices of l and q columns.
inline i64 tall_size(i64 l, i64 q) { return (l + 8) * (q + 4) + 4 * l + 16; }

// H (l x q) = W^T U.
template <class T>
void cross(const T* W, i64 l, const T* U, i64 q, i64 d, double* H, double* buffer);

// G (l x l) = R^T R with R = U - W diag(theta).
template <class T>
void residual_gram(const T* W, const T* U, const double* theta, i64 l, i64 d, double* G, double* buffer);

// S (d x q) = alpha S + W C, with C (l x q); S may be W itself when alpha is zero.
template <class T>
void combine(double alpha, T* S, i64 q, const T* W, const double* C, i64 l, i64 d, double* buffer);

}  // namespace VRPCA_ISA
}  // namespace vrpca
