// The epoch of oja_block (see epochs.hpp). W is kept as G + m c^T. A step changes c and G. In G, only rows where the
// row of the data has entries change. So short rows make short steps.
#pragma once
#include "epochs.hpp"
#include "panels.inl"

namespace vrpca {
namespace VRPCA_ISA {

template <class Rows>
void oja_block(const Rows& rows, typename Rows::T* W, i64 l, const i64* order, i64 m, const double* eta,
               const double* rho, typename Rows::T* panel_buffer, typename Rows::T* scratch, double* small) {
    using T = typename Rows::T;
    const i64 d = rows.d;
    const double* mu = lazy_shift(rows);
    auto panel = make_panel(rows, panel_buffer, l + (mu ? 1 : 0));  // G and m side by side
    panel.clear();
    double *c_ = small, *mG = c_ + l;      // mG = G^T m
    T* x_ = reinterpret_cast<T*>(mG + l);  // products of a row with the columns of the panel
    T* h = x_ + (l + 16);
    for (i64 c = 0; c < l + 16; c++) h[c] = 0;
    for (i64 c = 0; c < l; c++) {
        c_[c] = 0;
        mG[c] = mu ? inner(W + c, mu, d, l, 1) : 0;
    }
    const double mm = mu ? inner(mu, mu, d) : 0;
    for (i64 j = 0; j < d; j++) {
        for (i64 c = 0; c < l; c++) panel.at(j, c) = W[j * l + c];
        if (mu) panel.at(j, l) = T(mu[j]);
    }
    for (i64 t = 0; t < m; t++) {
        if (t + ahead(rows) < m) prefetch_row(rows, order[t + ahead(rows)]);
        const i64 i = order[t];
        auto x = row_of(rows, i, scratch);
        panel.project(x, x_);
        const double a = row_factor(rows.map, i), b = mu ? row_shift(rows.map, i) : 0, xm = mu ? double(x_[l]) : 0;
        const double step = eta[t] * (rho ? rho[i] : 1.0) * a;
        for (i64 c = 0; c < l; c++) {
            double y = a * (double(x_[c]) + xm * c_[c] - b * (mG[c] + mm * c_[c]));
            h[c] = T(step * y);
            mG[c] += double(h[c]) * xm;
            c_[c] -= step * b * y;
        }
        panel.update(x, h, l);
    }
    for (i64 j = 0; j < d; j++)
        for (i64 c = 0; c < l; c++) W[j * l + c] = mu ? T(double(panel.at(j, c)) + mu[j] * c_[c]) : panel.at(j, c);
}

#define VRPCA_INSTANTIATE(Rows)                                                                                     \
    template void oja_block(const Rows&, Rows::T*, i64, const i64*, i64, const double*, const double*, Rows::T*,    \
                            Rows::T*, double*);
VRPCA_EACH_ROWS(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE

}  // namespace VRPCA_ISA
}  // namespace vrpca
