// Linear algebra on a few long vectors. The vectors are rows of matrices.
// Included once per instruction set, so there is no include guard.
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// The entries of a piece. `sweep` works on one piece of all vectors at a time. A piece takes 4 KiB in float and 8 KiB
// in double. Shorter pieces fit the cache for more vectors. Longer pieces spend less time on starting loops.
constexpr i64 PIECE = 1024;

// Numbers of type T that `sweep` needs in `scratch`, for b vectors in V and m in S.
inline i64 sweep_size(i64 m, i64 b) { return b * PIECE + 4 * (m + b); }

// Works on the entries lo..hi of vectors that are d apart: m of them in S, b in V. Unless K (q x (m + b)) is null,
// the first q vectors of V become K [S; V]. Vectors whose coefficients are zero are not read. Then D += V [S; V]^T with
// those q vectors. D has q rows, and so many of the last columns: m + q for all, q without S, or none. `rows` has room
// for 2 (m + b) pointers.
template <class T>
void sweep(const T* S, i64 m, const double* K, T* V, i64 b, i64 q, i64 d, i64 lo, i64 hi, double* D, i64 columns,
           T* scratch, const T** rows);

// out (columns x rows, ld apart) = W^T. The rows of W are ldW apart.
template <class T>
void transpose(const T* W, i64 rows, i64 columns, i64 ldW, T* out, i64 ld);

}  // namespace VRPCA_ISA
}  // namespace vrpca
