// Linear algebra on tall row-major matrices of few columns, summed in double. It runs on one thread. It replaces a
// BLAS whose threads take longer to wake up than the work takes.
// Included once per instruction set, so there is no include guard.
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// Doubles that each kernel needs in `buffer`, for matrices of l and q columns. `cross` needs most: 4 rows of W, 4
// rows of U, and the sum (l x q), the latter two with rows padded to multiples of 4. The sum of these is rounded up.
inline i64 tall_size(i64 l, i64 q) { return (l + 8) * (q + 4) + 4 * l + 16; }

// H (l x q) = W^T U.
template <class T>
void cross(const T* W, i64 l, const T* U, i64 q, i64 d, double* H, double* buffer);

// G (l x l) = R^T R with R = U - W diag(theta).
template <class T>
void residual_gram(const T* W, const T* U, const double* theta, i64 l, i64 d, double* G, double* buffer);

// S (d x q) = alpha S + W C, with C (l x q). If alpha is zero, S may be W itself.
template <class T>
void combine(double alpha, T* S, i64 q, const T* W, const double* C, i64 l, i64 d, double* buffer);

}  // namespace VRPCA_ISA
}  // namespace vrpca
