// The stochastic epochs: many short steps, each with one row of the data. `order` has the row numbers of the m steps,
// rho_i is the weight of row i, and eta is the step size. A null pointer for rho stands for ones.
// T must be able to hold the squares of mapped entries. The Python class View scales the rows accordingly.
// Included once per instruction set, so there is no include guard.
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// The inner loop of Algorithm 1 for one vector: w <- normalise(w + eta (rho_i z_i (z_i.w - p_i) + u)).
// With V (d x j) and Q = Z V (n x j), every z_i is projected onto the complement of V (deflation).
// Room: a panel of 3 columns, 2 mapped rows in `scratch`, and j numbers in `f`.
template <class Rows>
void vr_vector(const Rows& rows, typename Rows::T* w, const typename Rows::T* w0, const typename Rows::T* u,
               const typename Rows::T* p, const typename Rows::T* V, const typename Rows::T* Q, i64 j,
               const i64* order, i64 m, double eta, const double* rho, typename Rows::T* panel,
               typename Rows::T* scratch, double* f);

// Prepares the panel of vr_block for U (d x l). It serves any number of calls with the same U and shift.
template <class Rows>
void load_panel(const Rows& rows, const typename Rows::T* U, i64 l, typename Rows::T* panel);

// The block step with the projection control variate: W <- W + eta [rho_i z_i (z_i^T W - p_i^T K) + U K], K = W0^T W.
// U is in the panel, W0^T U = diag(theta), and the rows of P are ldP apart. W is not orthonormalised: that would not
// change its span.
// Room: 2 mapped rows in `scratch`, small_size(l) numbers in `small`.
template <class Rows>
void vr_block(const Rows& rows, typename Rows::T* W, const typename Rows::T* W0, typename Rows::T* panel,
              const typename Rows::T* P, i64 ldP, const double* theta, i64 l, const i64* order, i64 m, double eta,
              const double* rho, typename Rows::T* scratch, double* small);

// The block step of Remark 1: W <- gram_schmidt(W + eta (rho_i z_i (z_i^T W - p_i) + U)). W and U are column-major.
// Room: one full row in `scratch`.
template <class Rows>
void vr_gram_schmidt(const Rows& rows, typename Rows::T* Wt, const typename Rows::T* Ut, const typename Rows::T* P,
                     i64 ldP, i64 l, const i64* order, i64 m, double eta, const double* rho, typename Rows::T* scratch);

// Oja's steps: W <- W + eta_t rho_i z_i (z_i^T W). W is not orthonormalised.
// Room: a panel of l + 1 columns, one mapped row in `scratch`, small_size(l) numbers in `small`.
template <class Rows>
void oja_block(const Rows& rows, typename Rows::T* W, i64 l, const i64* order, i64 m, const double* eta,
               const double* rho, typename Rows::T* panel, typename Rows::T* scratch, double* small);

}  // namespace VRPCA_ISA
}  // namespace vrpca
