// Bindings of the kernels of tall.hpp, vectors.hpp and symmetric.hpp.
#include <algorithm>
#include <vector>

#include "binding.hpp"
#include "pool.hpp"

namespace vrpca {
namespace {

// Multiplications of a thread, at least: waking it takes as long.
constexpr i64 LEAST_MULTIPLIED = 1 << 20;

// Every thread works on a part of all vectors and has a D of its own. The D are added in order, so that the result
// depends only on the number of threads. All memory is allocated before, because threads must not throw.
template <class T>
void sweep(const T* S, i64 m, const double* K, T* V, i64 b, i64 q, i64 d, double* D, i64 columns, i64 threads) {
    const i64 parts = std::max<i64>(1, std::min<i64>(threads, d * q * (m + b) / LEAST_MULTIPLIED));
    const i64 size = q * columns;
    const i64 room = DISPATCH(sweep_size(m, b));
    std::vector<double> own(size_t(parts * size), 0.0);
    std::vector<T> scratch(size_t(parts * room));
    std::vector<const T*> rows(size_t(parts * 2 * (m + b)));
    in_parallel(parts, [&](i64 p) {
        constexpr i64 line = 64 / i64(sizeof(T));
        const i64 lo = d * p / parts / line * line, hi = p + 1 < parts ? d * (p + 1) / parts / line * line : d;
        DISPATCH(sweep(S, m, K, V, b, q, d, lo, hi, own.data() + p * size, columns, scratch.data() + p * room,
                       rows.data() + p * 2 * (m + b)));
    });
    std::fill(D, D + size, 0.0);
    for (i64 p = 0; p < parts; p++)
        for (i64 e = 0; e < size; e++) D[e] += own[size_t(p * size + e)];
}

// Numbers that a thread transposes, at least: waking it takes as long.
constexpr i64 LEAST_TRANSPOSED = 1 << 15;

// Every thread transposes a part of the longer side.
template <class T>
void transpose(const T* W, i64 rows, i64 columns, i64 ldW, T* out, i64 ld, i64 threads) {
    const i64 parts = std::max<i64>(1, std::min<i64>(threads, rows * columns / LEAST_TRANSPOSED));
    const bool tall = rows > columns;
    const i64 side = tall ? rows : columns;
    in_parallel(parts, [&](i64 p) {
        const i64 lo = side * p / parts, count = side * (p + 1) / parts - lo;
        if (tall) DISPATCH(transpose(W + lo * ldW, count, columns, ldW, out + lo, ld));
        else DISPATCH(transpose(W + lo, rows, count, ldW, out + lo * ld, ld));
    });
}

template <class T>
void bind_vectors(nb::module_& m) {
    m.def("sweep", [](Mat<const T> S, OptMat<const double> K, Mat<T> V, Mat<double> D, i64 threads) {
        i64 s = S.shape(0), d = S.shape(1), b = V.shape(0), q = D.shape(0), columns = D.shape(1);
        require(i64(V.shape(1)) == d, "S and V must have rows of the same length");
        require(K ? i64(K->shape(0)) == q && i64(K->shape(1)) == s + b && q <= b : q == b,
                "K must have a row for every row of D and a column for every row of S and V");
        require(columns == s + q || columns == q || columns == 0,
                "D must have a column for every vector, for those of V alone, or none");
        nb::gil_scoped_release release;
        sweep(S.data(), s, K ? K->data() : nullptr, V.data(), b, q, d, D.data(), columns, threads);
    }, array("S"), optional_array("K"), array("V"), array("D"), "threads"_a);

    m.def("transpose", [](Rowwise<const T> W, Rowwise<T> out, i64 threads) {
        i64 rows = W.shape(0), columns = W.shape(1);
        require(i64(out.shape(0)) == columns && i64(out.shape(1)) == rows, "out must have the shape of W^T");
        require(!W.size() || (W.stride(1) == 1 && out.stride(1) == 1), "rows must be contiguous");
        nb::gil_scoped_release release;
        transpose(W.data(), rows, columns, i64(W.stride(0)), out.data(), i64(out.stride(0)), threads);
    }, array("W"), array("out"), "threads"_a);
}

template <class T>
void bind_matrices(nb::module_& m) {
    m.def("cross", [](Mat<const T> W, Mat<const T> U, Mat<double> H) {
        i64 d = W.shape(0), l = W.shape(1), q = U.shape(1);
        require(i64(U.shape(0)) == d && i64(H.shape(0)) == l && i64(H.shape(1)) == q, "W, U and H must fit together");
        nb::gil_scoped_release release;
        auto rows = scratch<double>(DISPATCH(tall_size(l, q)));
        DISPATCH(cross(W.data(), l, U.data(), q, d, H.data(), rows.get()));
    }, array("W"), array("U"), array("H"));

    m.def("residual_gram", [](Mat<const T> W, Mat<const T> U, Vec<const double> theta, Mat<double> G) {
        i64 d = W.shape(0), l = W.shape(1);
        require(i64(U.shape(0)) == d && i64(U.shape(1)) == l && i64(theta.size()) == l && i64(G.shape(0)) == l &&
                    i64(G.shape(1)) == l, "W, U, theta and G must fit together");
        nb::gil_scoped_release release;
        auto rows = scratch<double>(DISPATCH(tall_size(l, l)));
        DISPATCH(residual_gram(W.data(), U.data(), theta.data(), l, d, G.data(), rows.get()));
    }, array("W"), array("U"), array("theta"), array("G"));

    m.def("combine", [](double alpha, Mat<T> S, Mat<const T> W, Mat<const double> C) {
        i64 d = W.shape(0), l = W.shape(1), q = S.shape(1);
        require(i64(S.shape(0)) == d && i64(C.shape(0)) == l && i64(C.shape(1)) == q, "S, W and C must fit together");
        nb::gil_scoped_release release;
        auto row = scratch<double>(DISPATCH(tall_size(l, q)));
        DISPATCH(combine(alpha, S.data(), q, W.data(), C.data(), l, d, row.get()));
    }, "alpha"_a, array("S"), array("W"), array("C"));
}

void bind_symmetric(nb::module_& m) {
    m.def("eigenpairs", [](Mat<const double> A, Vec<double> theta, Mat<double> V) {
        i64 d = A.shape(0), values = theta.size(), vectors = V.shape(0);
        require(i64(A.shape(1)) == d && i64(V.shape(1)) == d && vectors <= values && values <= d,
                "A must be square, the rows of V as long as those of A, and there must be no more of them than of theta");
        nb::gil_scoped_release release;
        auto room = scratch<double>(DISPATCH(symmetric_size(d)));
        auto order = scratch<i64>(d);
        return DISPATCH(eigenpairs(A.data(), d, theta.data(), values, V.data(), vectors, room.get(), order.get()));
    }, array("A"), array("theta"), array("V"));
}

}  // namespace

void bind_tall(nb::module_& m) {
    bind_vectors<float>(m);
    bind_vectors<double>(m);
    bind_matrices<float>(m);
    bind_matrices<double>(m);
    bind_symmetric(m);
}

}  // namespace vrpca
