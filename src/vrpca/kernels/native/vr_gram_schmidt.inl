// The epoch of vr_gram_schmidt (see epochs.hpp). Every step works on all of W, as the paper writes it.
#pragma once
#include <cmath>

#include "epochs.hpp"
#include "rows.inl"

namespace vrpca {
namespace VRPCA_ISA {

// Writes out z = a (x * s - b m), all d entries.
template <class T, class I>
inline void write_row(const CsrRows<T, I>& rows, i64 i, T* z) {
    const double a = row_factor(rows.map, i), ab = a * row_shift(rows.map, i);
    const double* m = rows.map.shift;
    for (i64 j = 0; j < rows.d; j++) z[j] = m ? T(-ab * m[j]) : T(0);
    const SparseRow<T, I> x = raw_row(rows, i);
    for (i64 k = 0; k < x.nnz; k++) {
        double v = rows.map.col_scale ? double(x.v[k]) * double(rows.map.col_scale[x.j[k]]) : double(x.v[k]);
        z[x.j[k]] += T(a * v);
    }
}
template <class T>
inline void write_row(const DenseRows<T>& rows, i64 i, T* z) {
    const T a = T(row_factor(rows.map, i));
    const T* x = row_of(rows, i, z).z;
    for (i64 j = 0; j < rows.d; j++) z[j] = a * x[j];
}

// Modified Gram-Schmidt on the rows of Wt (l x d).
template <class T>
inline void gram_schmidt(T* Wt, i64 l, i64 d) {
    for (i64 c = 0; c < l; c++) {
        T* w = Wt + c * d;
        for (i64 s = 0; s < c; s++) axpy(T(-dot(Wt + s * d, w, d)), Wt + s * d, w, d);
        T scale = T(1 / std::sqrt(double(dot(w, w, d))));
        for (i64 j = 0; j < d; j++) w[j] *= scale;
    }
}

template <class Rows>
void vr_gram_schmidt(const Rows& rows, typename Rows::T* Wt, const typename Rows::T* Ut, const typename Rows::T* P,
                     i64 ldP, i64 l, const i64* order, i64 m, double eta, const double* rho, typename Rows::T* z) {
    using T = typename Rows::T;
    const i64 d = rows.d;
    for (i64 t = 0; t < m; t++) {
        const i64 i = order[t];
        write_row(rows, i, z);
        for (i64 c = 0; c < l; c++) {
            T* w = Wt + c * d;
            double gap = double(dot(z, w, d)) - double(P[i * ldP + c]);
            axpy(T(eta * (rho ? rho[i] : 1.0) * gap), z, w, d);
            axpy(T(eta), Ut + c * d, w, d);
        }
        gram_schmidt(Wt, l, d);
    }
}

#define VRPCA_INSTANTIATE(Rows)                                                                                     \
    template void vr_gram_schmidt(const Rows&, Rows::T*, const Rows::T*, const Rows::T*, i64, i64, const i64*, i64, \
                                  double, const double*, Rows::T*);
VRPCA_EACH_ROWS(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE

}  // namespace VRPCA_ISA
}  // namespace vrpca
