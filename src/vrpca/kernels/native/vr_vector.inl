// The epoch of vr_vector (see epochs.hpp). w is kept as a sum of few vectors with scalar factors. A step changes the
// factors and one vector, e. In e, only entries where the row of the data has entries change. So short rows make
// short steps.
#pragma once
#include <cmath>

#include "epochs.hpp"
#include "panels.inl"

namespace vrpca {
namespace VRPCA_ISA {

// Every normalisation changes the factor sigma of e. When sigma leaves the range FOLD..1/FOLD, w is written out and
// the sum starts afresh. That takes a walk over all vectors. A smaller FOLD makes it rarer. A larger FOLD keeps e
// nearer to the size of w.
constexpr double FOLD = 1e-3;

template <class Rows>
void vr_vector(const Rows& rows, typename Rows::T* w, const typename Rows::T* w0, const typename Rows::T* u,
               const typename Rows::T* p, const typename Rows::T* V, const typename Rows::T* Q, i64 nV,
               const i64* order, i64 m, double eta, const double* rho, typename Rows::T* panel_buffer,
               typename Rows::T* scratch, double* f) {
    using T = typename Rows::T;
    const i64 d = rows.d;
    if (m == 0) return;
    const double* mu = lazy_shift(rows);
    auto panel = make_panel(rows, panel_buffer, mu ? 3 : 2);  // its columns are e, u and m
    panel.clear();
    for (i64 j = 0; j < d; j++) panel.at(j, 1) = u[j];
    if (mu)
        for (i64 j = 0; j < d; j++) panel.at(j, 2) = T(mu[j]);
    const double uu = inner(u, u, d), um = mu ? inner(u, mu, d) : 0, mm = mu ? inner(mu, mu, d) : 0;

    // w = alpha w0 + beta u + gamma m + V f + sigma e. Near the solution e is small, and so is its rounding.
    // uw is u.w, me is m.e.
    double alpha, beta, gamma, sigma, uw, me;
    auto fold = [&] {  // starts afresh from a w that is written out: w = alpha w0 + e
        double norm = std::sqrt(inner(w, w, d));
        alpha = inner(w, w0, d) / norm;
        beta = gamma = 0;
        sigma = 1;
        for (i64 s = 0; s < nV; s++) f[s] = 0;
        for (i64 j = 0; j < d; j++) panel.at(j, 0) = T(double(w[j]) / norm - alpha * double(w0[j]));
        uw = inner(w, u, d) / norm;
        me = 0;
        if (mu)
            for (i64 j = 0; j < d; j++) me += mu[j] * double(panel.at(j, 0));
    };
    auto unfold = [&] {  // writes w out
        for (i64 j = 0; j < d; j++) {
            double t = alpha * double(w0[j]) + beta * double(u[j]) + sigma * double(panel.at(j, 0));
            if (mu) t += gamma * mu[j];
            for (i64 s = 0; s < nV; s++) t += f[s] * double(V[j * nV + s]);
            w[j] = T(t);
        }
    };
    fold();
    T h[4] = {};
    auto last = raw_row(rows, order[0]);
    for (i64 t = 0; t < m; t++) {
        prefetch_far(rows, order, t, m);
        const i64 i = order[t];
        auto next = raw_row(rows, order[t + NEXT < m ? t + NEXT : t]);
        auto x = row_of(rows, i, t % 2 ? scratch : scratch + row_size(rows), next);
        const double lift = row_factor(rows.map, i) / sigma;  // before the walk, so that the two overlap
        T y[4];
        const double xx = panel.advance_one(last, h, x, next, y);
        const double a = row_factor(rows.map, i), b = mu ? row_shift(rows.map, i) : 0, xm = mu ? double(y[2]) : 0;
        const double zu = a * (double(y[1]) - b * um), zm = a * (xm - b * mm);
        double zz = a * a * (xx - 2 * b * xm + b * b * mm);
        // gap = z.w - z.w0
        double gap = (alpha - 1) * double(p[i]) + beta * zu + gamma * zm + sigma * a * (double(y[0]) - b * me);
        for (i64 s = 0; s < nV; s++) {
            double zv = Q[i * nV + s];
            gap += f[s] * zv;
            zz -= zv * zv;
        }
        const double zw = gap + double(p[i]), q = eta * (rho ? rho[i] : 1.0) * gap;
        const double shrink =
            1 / std::sqrt(1 + 2 * (q * zw + eta * uw) + q * q * zz + 2 * q * eta * zu + eta * eta * uu);
        h[0] = T(q * lift);  // the next step does e += h x, in the same walk as its own products
        last = x;
        me += double(h[0]) * xm;
        uw = (uw + q * zu + eta * uu) * shrink;
        alpha *= shrink;
        beta = (beta + eta) * shrink;
        gamma = (gamma - q * a * b) * shrink;
        sigma *= shrink;
        for (i64 s = 0; s < nV; s++) f[s] = (f[s] - q * double(Q[i * nV + s])) * shrink;
        if (!(sigma > FOLD && sigma < 1 / FOLD)) {
            panel.update_one(last, h);
            h[0] = 0;
            unfold();
            fold();
        }
    }
    panel.update_one(last, h);
    unfold();
}

#define VRPCA_INSTANTIATE(Rows)                                                                                       \
    template void vr_vector(const Rows&, Rows::T*, const Rows::T*, const Rows::T*, const Rows::T*, const Rows::T*,    \
                            const Rows::T*, i64, const i64*, i64, double, const double*, Rows::T*, Rows::T*, double*);
VRPCA_EACH_ROWS(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE

}  // namespace VRPCA_ISA
}  // namespace vrpca
