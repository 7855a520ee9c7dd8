// Python's view of the tall-matrix kernels.
#include <memory>

#include "binding.hpp"
#include "dispatch.hpp"
#define VRPCA_ISA baseline
#include "tall.hpp"
#undef VRPCA_ISA
#ifdef VRPCA_HAVE_AVX2
#define VRPCA_ISA avx2
#include "tall.hpp"
#undef VRPCA_ISA
#endif

using namespace nb::literals;
using vrpca::i64;

namespace {

std::unique_ptr<double[]> buffer(i64 size) { return std::unique_ptr<double[]>(new double[size > 0 ? size : 1]); }

template <class T>
void bind(nb::module_& m) {
    m.def("cross", [](Mat<const T> W, Mat<const T> U, Mat<double> H) {
        i64 d = W.shape(0), l = W.shape(1), q = U.shape(1);
        require(i64(U.shape(0)) == d && i64(H.shape(0)) == l && i64(H.shape(1)) == q, "W, U and H must fit together");
        nb::gil_scoped_release release;
        auto rows = buffer(DISPATCH(tall_size(l, q)));
        DISPATCH(cross(W.data(), l, U.data(), q, d, H.data(), rows.get()));
    }, nb::arg("W").noconvert(), nb::arg("U").noconvert(), nb::arg("H").noconvert());

    m.def("residual_gram", [](Mat<const T> W, Mat<const T> U, Vec<const double> theta, Mat<double> G) {
        i64 d = W.shape(0), l = W.shape(1);
        require(i64(U.shape(0)) == d && i64(U.shape(1)) == l && i64(theta.size()) == l && i64(G.shape(0)) == l &&
                    i64(G.shape(1)) == l, "W, U, theta and G must fit together");
        nb::gil_scoped_release release;
        auto rows = buffer(DISPATCH(tall_size(l, l)));
        DISPATCH(residual_gram(W.data(), U.data(), theta.data(), l, d, G.data(), rows.get()));
    }, nb::arg("W").noconvert(), nb::arg("U").noconvert(), nb::arg("theta").noconvert(), nb::arg("G").noconvert());

    m.def("combine", [](double alpha, Mat<T> S, Mat<const T> W, Mat<const double> C) {
        i64 d = W.shape(0), l = W.shape(1), q = S.shape(1);
        require(i64(S.shape(0)) == d && i64(C.shape(0)) == l && i64(C.shape(1)) == q, "S, W and C must fit together");
        nb::gil_scoped_release release;
        auto row = buffer(DISPATCH(tall_size(l, q)));
        DISPATCH(combine(alpha, S.data(), q, W.data(), C.data(), l, d, row.get()));
    }, "alpha"_a, nb::arg("S").noconvert(), nb::arg("W").noconvert(), nb::arg("C").noconvert());
}

}  // namespace

void bind_tall(nb::module_& m) {
    bind<float>(m);
    bind<double>(m);
}
