// Linear algebra on a few long vectors that are rows, in pieces that stay in the cache. NumPy twins: reference.py.
// Included once per instruction set, so no include guard.
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

constexpr i64 PIECE = 1024;  // entries of every vector that are worked on together

// Elements of scratch that `sweep` needs for b vectors beside m others.
inline i64 sweep_size(i64 m, i64 b) { return b * PIECE + 4 * (m + b); }

// For the entries lo..hi of vectors that are d apart: V becomes K [S; V], with K (q x (m + b)), unless it is null; then
// D (q x (m + q)) += V [S; V]^T.
// `rows` has room for m + b pointers.
template <class T>
void sweep(const T* S, i64 m, const double* K, T* V, i64 b, i64 q, i64 d, i64 lo, i64 hi, double* D,
           T* scratch, const T** rows);

// out (columns x rows) = W^T.
template <class T>
void transpose(const T* W, i64 rows, i64 columns, T* out);

}  // namespace VRPCA_ISA
}  // namespace vrpca
