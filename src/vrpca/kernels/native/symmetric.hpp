// Eigenpairs of small symmetric matrices in double precision. LAPACK's calls take several times as long for orders
// below 100: it is made for large matrices.
// Included once per instruction set, so there is no include guard.
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// Doubles that `eigenpairs` needs in `room`, for a matrix of order d. Rows are padded to 8 numbers.
inline i64 symmetric_size(i64 d) {
    const i64 ld = (d + 8) / 8 * 8;
    return (d + 1) * ld + d * ld + 6 * ld;
}

// The first `values` eigenvalues of A (d x d), largest first, and the eigenvectors of the first `vectors` of them, as
// rows of V. `order` has room for d numbers. Returns whether the iteration has converged; if not, or if A has entries
// that are not finite, theta and V are of no use.
bool eigenpairs(const double* A, i64 d, double* theta, i64 values, double* V, i64 vectors, double* room, i64* order);

}  // namespace VRPCA_ISA
}  // namespace vrpca
