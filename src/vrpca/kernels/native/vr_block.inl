// The epoch of vr_block (see epochs.hpp). W is kept as W0 A + U S + m c^T + E. A step changes S, c and
// E. In E, only rows where the row of the data has entries change. So short rows make short steps.
#pragma once
#include "epochs.hpp"
#include "panels.inl"

namespace vrpca {
namespace VRPCA_ISA {

// Converts `count` rows of a matrix with l columns to double, with padded rows.
template <class T>
inline void widen_rows(const T* W, i64 count, i64 l, double* out) {
    for (i64 j = 0; j < count; j++)
        for (i64 c = 0; c < l; c++) out[j * quads(l) + c] = double(W[j * l + c]);
}

template <class Rows>
void load_panel(const Rows& rows, const typename Rows::T* U, i64 l, typename Rows::T* buffer) {
    using T = typename Rows::T;
    const double* mu = lazy_shift(rows);
    auto panel = make_panel(rows, buffer, block_columns(rows, l));
    panel.clear();
    for (i64 j = 0; j < rows.d; j++) {
        for (i64 c = 0; c < l; c++) panel.at(j, l + c) = U[j * l + c];
        if (mu) panel.at(j, 2 * l) = T(mu[j]);
    }
}

// Where the small matrices and vectors of vr_block are: W = W0 A + U S + m c^T + E, K = W0^T W, M = A - K,
// mE = E^T m, mU = U^T m. Functions take a BlockState by value. So the compiler knows that a store to a matrix does not
// change the pointers.
template <class T>
struct BlockState {
    i64 l, ld;
    double *A, *K, *M, *S, *c, *mE, *mU, *zU, *y, *wide;
    T* x;  // products of a row with the columns of the panel: 2 l + 1 numbers and padding
    T* h;  // the step that E has not taken yet, E += x h^T: l numbers, then zeros for the other columns of the panel

    BlockState(double* small, i64 l_) : l(l_), ld(quads(l_)) {
        for (i64 s = 0; s < small_size(l); s++) small[s] = 0;
        A = small, K = A + l * ld, M = K + l * ld, S = M + l * ld;
        c = S + l * ld, mE = c + ld, mU = mE + ld, zU = mU + ld, y = zU + ld, wide = y + ld;
        x = reinterpret_cast<T*>(wide + SMALL_ROWS * ld), h = x + (2 * l + 16);
        for (i64 s = 0; s < 2 * (2 * l + 16); s++) x[s] = 0;
    }
};

// Starts from a W that is written out: A = K = W0^T W, S = 0, c = 0, E = W - W0 A.
template <class Panel, class T>
void fold_block(Panel& panel, const double* mu, const T* W, const T* W0, i64 d, const BlockState<T> b) {
    const i64 l = b.l, ld = b.ld;
    for (i64 j0 = 0; j0 < d; j0 += SMALL_ROWS) {
        const i64 count = d - j0 < SMALL_ROWS ? d - j0 : SMALL_ROWS;
        widen_rows(W + j0 * l, count, l, b.wide);
        for (i64 j = 0; j < count; j++) add_outer(W0 + (j0 + j) * l, b.wide + j * ld, l, ld, b.A);
    }
    for (i64 s = 0; s < l * ld; s++) {
        b.K[s] = b.A[s];
        b.M[s] = -b.A[s];  // M serves as -A until E has been computed
    }
    for (i64 j0 = 0; j0 < d; j0 += SMALL_ROWS) {
        const i64 count = d - j0 < SMALL_ROWS ? d - j0 : SMALL_ROWS;
        widen_rows(W + j0 * l, count, l, b.wide);
        for (i64 j = j0; j < j0 + count; j++) {
            double* e = b.wide + (j - j0) * ld;
            row_times(W0 + j * l, b.M, l, ld, e);
            for (i64 c = 0; c < l; c++) panel.at(j, c) = T(e[c]);
            for (i64 c = 0; mu && c < l; c++) {
                b.mE[c] += mu[j] * double(panel.at(j, c));
                b.mU[c] += mu[j] * double(panel.at(j, l + c));
            }
        }
    }
    for (i64 s = 0; s < l * ld; s++) b.M[s] = 0;
}

// Writes out W = W0 A + U S + m c^T + E.
template <class Panel, class T>
void unfold_block(Panel& panel, const double* mu, const T* W0, i64 d, const BlockState<T> b, T* W) {
    const i64 l = b.l, ld = b.ld;
    for (i64 j0 = 0; j0 < d; j0 += SMALL_ROWS) {
        const i64 count = d - j0 < SMALL_ROWS ? d - j0 : SMALL_ROWS;
        for (i64 j = j0; j < j0 + count; j++)
            for (i64 c = 0; c < l; c++)
                b.wide[(j - j0) * ld + c] = double(panel.at(j, c)) + (mu ? mu[j] * b.c[c] : 0);
        for (i64 j = j0; j < j0 + count; j++) {
            double* w = b.wide + (j - j0) * ld;
            for (i64 c = 0; c < l; c++) b.x[c] = panel.at(j, l + c);
            row_times(W0 + j * l, b.A, l, ld, w);
            row_times(b.x, b.S, l, ld, w);
            for (i64 c = 0; c < l; c++) W[j * l + c] = T(w[c]);
        }
    }
}

// One step with row i. b.x has the products of the row with the panel's columns. On return E += x h^T is left to do.
template <class T>
inline void block_step(const RowMap<T>& map, const double* mu, double mm, i64 i, const T* p, const double* theta,
                       double eta, double rho, const BlockState<T> b) {
    const i64 l = b.l, ld = b.ld;
    const double a = row_factor(map, i), shift = mu ? row_shift(map, i) : 0, xm = mu ? double(b.x[2 * l]) : 0;
    const double zm = a * (xm - shift * mm);
    for (i64 c = 0; c < ld; c += 4) {
        Quad::put(b.zU + c, a * (widen(b.x + l + c) - shift * Quad::get(b.mU + c)));
        Quad::put(b.y + c, a * (widen(b.x + c) - shift * Quad::get(b.mE + c)) + zm * Quad::get(b.c + c));
    }
    row_times(p, b.M, l, ld, b.y);
    row_times(b.zU, b.S, l, ld, b.y);  // y = z^T W - p^T K
    for (i64 c = 0; c < l; c++) {
        b.y[c] *= rho;
        b.h[c] = T(eta * a * b.y[c]);
        b.mE[c] += double(b.h[c]) * xm;
        b.c[c] -= eta * a * shift * b.y[c];
    }
    for (i64 s = 0; s < l; s++) {
        const double ps = eta * double(p[s]), ts = eta * theta[s];
        for (i64 c = s * ld; c < (s + 1) * ld; c += 4) {
            const Quad::V k = Quad::get(b.K + c), dk = ps * Quad::get(b.y + c - s * ld) + ts * k;
            Quad::put(b.S + c, Quad::get(b.S + c) + eta * k);
            Quad::put(b.K + c, k + dk);
            Quad::put(b.M + c, Quad::get(b.M + c) - dk);
        }
    }
}

template <class Rows>
void vr_block(const Rows& rows, typename Rows::T* W, const typename Rows::T* W0, typename Rows::T* panel_buffer,
              const typename Rows::T* P, i64 ldP, const double* theta, i64 l, const i64* order, i64 m, double eta,
              const double* rho, typename Rows::T* scratch, double* small) {
    using T = typename Rows::T;
    if (m == 0) return;
    const double* mu = lazy_shift(rows);
    const double mm = mu ? inner(mu, mu, rows.d) : 0;
    auto panel = make_panel(rows, panel_buffer, block_columns(rows, l));
    BlockState<T> state(small, l);
    fold_block(panel, mu, W, W0, rows.d, state);
    auto last = raw_row(rows, order[0]);
    for (i64 t = 0; t < m; t++) {
        prefetch_far(rows, order, t, m);
        const i64 i = order[t];
        auto next = raw_row(rows, order[t + NEXT < m ? t + NEXT : t]);
        auto x = row_of(rows, i, t % 2 ? scratch : scratch + row_size(rows), next);
        panel.advance(last, state.h, x, next, l, state.x);  // E += x h^T of the step before, and this row's products
        last = x;
        block_step(rows.map, mu, mm, i, P + i * ldP, theta, eta, rho ? rho[i] : 1.0, state);
    }
    panel.update(last, state.h, l);
    unfold_block(panel, mu, W0, rows.d, state, W);
}

#define VRPCA_INSTANTIATE(Rows)                                                                                     \
    template void load_panel(const Rows&, const Rows::T*, i64, Rows::T*);                                           \
    template void vr_block(const Rows&, Rows::T*, const Rows::T*, Rows::T*, const Rows::T*, i64, const double*,     \
                           i64, const i64*, i64, double, const double*, Rows::T*, double*);
VRPCA_EACH_ROWS(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE

}  // namespace VRPCA_ISA
}  // namespace vrpca
