// Bindings of the kernels of epochs.hpp. They run on one thread, because every step needs the step before it.
#include <utility>

#include "binding.hpp"

namespace vrpca {
namespace {

void check_order(const Vec<const i64>& order, i64 n) {
    for (size_t t = 0; t < order.size(); t++)
        require(order.data()[t] >= 0 && order.data()[t] < n, "order holds a row number outside the block");
}

template <class T>
void check_rowwise(const Rowwise<const T>& P, i64 n, i64 l) {
    require(i64(P.shape(0)) == n && i64(P.shape(1)) == l, "P must be (rows of the block) x l");
    require(n == 0 || l == 1 || P.stride(1) == 1, "the rows of P must be contiguous");
}

template <class R>
void bind_vr_vector(nb::module_& m) {
    using T = typename R::T;
    m.def("vr_vector", [](const BoundRows<R>& self, Vec<T> w, Vec<const T> w0, Vec<const T> u, Vec<const T> p,
                          OptMat<const T> V, OptMat<const T> Q, Vec<const i64> order, double eta,
                          OptVec<const double> rho) {
        i64 d = self.rows.d, n = self.rows.n, j = V ? V->shape(1) : 0;
        require(i64(w.size()) == d && i64(w0.size()) == d && i64(u.size()) == d, "w, w0 and u must have d entries");
        require(i64(p.size()) == n && (!rho || i64(rho->size()) == n), "p and rho must have one entry per row");
        require(bool(V) == bool(Q), "V and Q go together");
        require(!V || (i64(V->shape(0)) == d && i64(Q->shape(0)) == n && i64(Q->shape(1)) == j),
                "V must be d x j and Q (rows of the block) x j");
        check_order(order, n);
        nb::gil_scoped_release release;
        auto panel = scratch<T>(DISPATCH(panel_size(self.rows, 3)));
        auto row = scratch<T>(2 * DISPATCH(row_size(self.rows)));
        auto f = scratch<double>(j);
        DISPATCH(vr_vector(self.rows, w.data(), w0.data(), u.data(), p.data(), V ? V->data() : nullptr,
                           Q ? Q->data() : nullptr, j, order.data(), i64(order.size()), eta,
                           data_or_null<double>(rho), panel.get(), row.get(), f.get()));
    }, "rows"_a, array("w"), array("w0"), array("u"), array("p"), optional_array("V"), optional_array("Q"),
       array("order"), "eta"_a, optional_array("rho"));
}

template <class R>
void bind_vr_block(nb::module_& m) {
    using T = typename R::T;
    m.def("vr_panel", [](const BoundRows<R>& self, Mat<const T> U) {
        i64 l = U.shape(1), size = DISPATCH(block_panel_size(self.rows, l));
        require(i64(U.shape(0)) == self.rows.d, "U must be d x l");
        auto panel = scratch<T>(size);
        {
            nb::gil_scoped_release release;
            DISPATCH(load_panel(self.rows, U.data(), l, panel.get()));
        }
        return as_array(std::move(panel), size);
    }, "rows"_a, array("U"));

    m.def("vr_block", [](const BoundRows<R>& self, Mat<T> W, Mat<const T> W0, Vec<T> panel, Rowwise<const T> P,
                         Vec<const double> theta, Vec<const i64> order, double eta, OptVec<const double> rho) {
        i64 d = self.rows.d, n = self.rows.n, l = W.shape(1);
        require(i64(W.shape(0)) == d && i64(W0.shape(0)) == d && i64(W0.shape(1)) == l, "W and W0 must be d x l");
        require(i64(panel.size()) == DISPATCH(block_panel_size(self.rows, l)), "panel must be vr_panel(rows, U)");
        check_rowwise(P, n, l);
        require(i64(theta.size()) == l && (!rho || i64(rho->size()) == n), "theta must have l entries, rho n");
        check_order(order, n);
        nb::gil_scoped_release release;
        auto row = scratch<T>(2 * DISPATCH(row_size(self.rows)));
        auto small = scratch<double>(DISPATCH(small_size(l)));
        DISPATCH(vr_block(self.rows, W.data(), W0.data(), panel.data(), P.data(), P.stride(0), theta.data(), l,
                          order.data(), i64(order.size()), eta, data_or_null<double>(rho), row.get(), small.get()));
    }, "rows"_a, array("W"), array("W0"), array("panel"), array("P"), array("theta"), array("order"), "eta"_a,
       optional_array("rho"));
}

template <class R>
void bind_vr_gram_schmidt(nb::module_& m) {
    using T = typename R::T;
    m.def("vr_gram_schmidt", [](const BoundRows<R>& self, Mat<T> W, Mat<const T> U, Rowwise<const T> P,
                                Vec<const i64> order, double eta, OptVec<const double> rho) {
        i64 d = self.rows.d, n = self.rows.n, l = W.shape(1);
        require(i64(W.shape(0)) == d && i64(U.shape(0)) == d && i64(U.shape(1)) == l, "W and U must be d x l");
        check_rowwise(P, n, l);
        require(!rho || i64(rho->size()) == n, "rho must have one entry per row");
        check_order(order, n);
        nb::gil_scoped_release release;
        auto Wt = scratch<T>(d * l), Ut = scratch<T>(d * l), row = scratch<T>(d);
        for (i64 j = 0; j < d; j++)
            for (i64 c = 0; c < l; c++) {
                Wt[c * d + j] = W.data()[j * l + c];
                Ut[c * d + j] = U.data()[j * l + c];
            }
        DISPATCH(vr_gram_schmidt(self.rows, Wt.get(), Ut.get(), P.data(), P.stride(0), l, order.data(),
                                 i64(order.size()), eta, data_or_null<double>(rho), row.get()));
        for (i64 j = 0; j < d; j++)
            for (i64 c = 0; c < l; c++) W.data()[j * l + c] = Wt[c * d + j];
    }, "rows"_a, array("W"), array("U"), array("P"), array("order"), "eta"_a, optional_array("rho"));
}

template <class R>
void bind_oja_block(nb::module_& m) {
    using T = typename R::T;
    m.def("oja_block", [](const BoundRows<R>& self, Mat<T> W, Vec<const i64> order, Vec<const double> eta,
                          OptVec<const double> rho) {
        i64 l = W.shape(1);
        require(i64(W.shape(0)) == self.rows.d, "W must be d x l");
        require(eta.size() == order.size(), "eta and order must have the same length");
        require(!rho || i64(rho->size()) == self.rows.n, "rho must have one entry per row");
        check_order(order, self.rows.n);
        nb::gil_scoped_release release;
        auto panel = scratch<T>(DISPATCH(panel_size(self.rows, l + 1)));
        auto row = scratch<T>(DISPATCH(row_size(self.rows)));
        auto small = scratch<double>(DISPATCH(small_size(l)));
        DISPATCH(oja_block(self.rows, W.data(), l, order.data(), i64(order.size()), eta.data(),
                           data_or_null<double>(rho), panel.get(), row.get(), small.get()));
    }, "rows"_a, array("W"), array("order"), array("eta"), optional_array("rho"));
}

}  // namespace

void bind_epochs(nb::module_& m) {
#define VRPCA_BIND(Rows)           \
    bind_vr_vector<Rows>(m);       \
    bind_vr_block<Rows>(m);        \
    bind_vr_gram_schmidt<Rows>(m); \
    bind_oja_block<Rows>(m);
    VRPCA_EACH_ROWS(VRPCA_BIND)
#undef VRPCA_BIND
}

}  // namespace vrpca
