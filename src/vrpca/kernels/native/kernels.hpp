// The kernels' declarations. VRPCA_ISA names the instruction set they are compiled for: the same source becomes
// vrpca::baseline and, on x86, vrpca::avx2; bindings.cpp picks one at run time. NumPy twins: reference.py.
// Included once per instruction set, so no include guard.
#include "rows.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// Mapped entries must be of a size that T can square: the view sees to that.

// How many elements of scratch a kernel needs (the caller allocates).
template <class Rows>
struct Size {
    static i64 columns(i64 l);                        // sparse products: l padded to whole registers
    static i64 panel(const Rows& rows, i64 columns);  // d x columns, laid out as the row type likes it
    static i64 block_panel(const Rows& rows, i64 l);  // E | U | m of vr_block
    static i64 row(const Rows& rows);                 // one mapped dense row
    static i64 tile(const Rows& rows);                // several mapped dense rows
};

// U += sum over rows lo..hi of z (z^T W), d x l row-major, rows ld apart, zeros past l; P (n x l), if given, receives
// Z W. CSR rows leave the shift's part of U to the caller: tail += sum a b (z^T W).
template <class T, class I>
void product(const CsrRows<T, I>& rows, i64 lo, i64 hi, const T* W, const double* mW, i64 l, i64 ld, T* U, T* P,
             double* tail);

// Rows lo..hi of U (d x l) += the `parts` partial results (d x ld) - m tail^T.
template <class T>
void add_partials(const T* partial, i64 parts, i64 d, i64 lo, i64 hi, i64 l, i64 ld, const double* m,
                  const double* tail, T* U);

// The product for dense rows, with W, U column-major (l x d), U in double.
template <class T>
void product(const DenseRows<T>& rows, i64 lo, i64 hi, const T* Wt, i64 l, double* Ut, T* P, T* tile);

// The same for wide blocks: W and the sums are panels of WIDE columns each, one after the other, padded with zeros.
// sums must be zero, and are in the end; totals (the same size) receive the result; tile has room for TILE rows.
constexpr i64 WIDE = 8;
template <class T>
void wide_product(const DenseRows<T>& rows, i64 lo, i64 hi, const T* panels, i64 l, T* sums, double* totals, T* P,
                  T* tile);

// The upper triangle of G (square, gram_side(d) wide) += [Z r]^T [Z r] over rows lo..hi, with the row scales (without the
// unit) behind the last column of Z. strips has room for gram_room(d) numbers.
template <class T>
i64 gram_side(i64 d);
template <class T>
i64 gram_room(i64 d);
template <class T>
void gram(const DenseRows<T>& rows, i64 lo, i64 hi, double* G, T* strips);

// norms[i] = |z_i|^2.
template <class Rows>
void row_norms(const Rows& rows, double* norms, typename Rows::T* scratch);

// Weighted mean and sum of squared deviations of factor * x, per column, over rows lo..hi; shifted, one reading.
template <class T>
void moments(const DenseRows<T>& rows, i64 lo, i64 hi, const double* weight, double factor, double* mean, double* M2,
             double* total);
template <class T, class I>
void moments(const CsrRows<T, I>& rows, i64 lo, i64 hi, const double* weight, double factor, double* mean, double* M2,
             double* cells, double* total);  // cells: room for 4 d

// sum += the weighted squares of factor * x, per column, over rows lo..hi; returns the rows' weight.
template <class T>
double squares(const DenseRows<T>& rows, i64 lo, i64 hi, const double* weight, double factor, double* sum);
template <class T, class I>
double squares(const CsrRows<T, I>& rows, i64 lo, i64 hi, const double* weight, double factor, double* sum);

// Algorithm 1's inner loop for one vector, lazily: w <- normalise(w + eta (rho_i z_i (z_i.w - p_i) + u)).
// With V (d x j) and Q = Z V (n x j), every z_i is projected onto V's complement (deflation).
template <class Rows>
void vr_vector(const Rows& rows, typename Rows::T* w, const typename Rows::T* w0, const typename Rows::T* u,
               const typename Rows::T* p, const typename Rows::T* V, const typename Rows::T* Q, i64 j,
               const i64* order, i64 m, double eta, const double* rho, typename Rows::T* panel,
               typename Rows::T* scratch, double* f);

// The panel of vr_block for U (d x l): good for any number of calls with the same U and shift.
template <class Rows>
void load_panel(const Rows& rows, const typename Rows::T* U, i64 l, typename Rows::T* panel);

// The block step with the projection control variate: W <- W + eta [rho_i z_i (z_i^T W - p_i^T K) + U K], K = W0^T W.
// U is in the panel, W0^T U = diag(theta); P's rows are ldP apart. W is not orthonormalised: that cannot change its
// span.
template <class Rows>
void vr_block(const Rows& rows, typename Rows::T* W, const typename Rows::T* W0, typename Rows::T* panel,
              const typename Rows::T* P, i64 ldP, const double* theta, i64 l, const i64* order, i64 m, double eta,
              const double* rho, typename Rows::T* scratch, double* small);

// Remark 1 to the letter: W <- gram_schmidt(W + eta (rho_i z_i (z_i^T W - p_i) + U)), everything column-major (l x d).
template <class Rows>
void vr_gram_schmidt(const Rows& rows, typename Rows::T* Wt, const typename Rows::T* Ut, const typename Rows::T* P,
                     i64 ldP, i64 l, const i64* order, i64 m, double eta, const double* rho, typename Rows::T* scratch);

// Oja's steps, W <- W + eta_t rho_i z_i (z_i^T W), not orthonormalised.
template <class Rows>
void oja_block(const Rows& rows, typename Rows::T* W, i64 l, const i64* order, i64 m, const double* eta,
               const double* rho, typename Rows::T* panel, typename Rows::T* scratch, double* small);

// Doubles of small-matrix scratch for the block kernels.
constexpr i64 SMALL_ROWS = 32;
inline i64 small_size(i64 l) { return 4 * l * (l + 3) + (SMALL_ROWS + 16) * (l + 16); }

}  // namespace VRPCA_ISA
}  // namespace vrpca
