// Compares the compiled kernels with plain loops in double precision. It needs no Python, so that it can be compiled for
// another processor and run in an emulator: see targets.py. The formulas are those of kernels/reference.py.
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "dispatch.hpp"
#include "memory.hpp"
#include "parts.hpp"

using namespace vrpca;

namespace {

using Numbers = std::vector<double>;

int compared = 0, failed = 0;

// Allowed difference in units of rounding of the largest expected number: as in tests/kernels/test_implementations.py.
constexpr double UNITS = 500;

template <class T, class Found>
void compare(const std::string& what, const Found& found, const Numbers& expected) {
    double largest = 1, off = 0;
    for (double e : expected) largest = std::max(largest, std::fabs(e));
    for (size_t i = 0; i < expected.size(); i++) {
        const double difference = std::fabs(double(found[i]) - expected[i]);
        off = difference <= off ? off : difference;  // a nan stays
    }
    const double allowed = UNITS * std::numeric_limits<T>::epsilon() * largest;
    compared++;
    if (off <= allowed) return;
    failed++;
    std::printf("WRONG %s: off by %.2e, allowed %.2e\n", what.c_str(), off, allowed);
}

// ------------------------------------------------------------------------------------------------ random inputs

std::mt19937_64 generator(5);

double normal() { return std::normal_distribution<double>()(generator); }

// Numbers that T can hold, so that rounding of the input is no difference.
template <class T>
Numbers draw(i64 size) {
    Numbers out(size);
    for (double& x : out) x = double(T(normal()));
    return out;
}

template <class T>
Memory<T> as(const Numbers& x) {
    auto out = scratch<T>(i64(x.size()));
    for (size_t i = 0; i < x.size(); i++) out[i] = T(x[i]);
    return out;
}

// d x l, row-major, orthonormal columns.
template <class T>
Numbers orthonormal(i64 d, i64 l) {
    Numbers W = draw<T>(d * l);
    for (i64 c = 0; c < l; c++) {
        for (i64 again = 0; again < 2; again++)
            for (i64 b = 0; b < c; b++) {
                double dot = 0;
                for (i64 j = 0; j < d; j++) dot += W[j * l + b] * W[j * l + c];
                for (i64 j = 0; j < d; j++) W[j * l + c] -= dot * W[j * l + b];
            }
        double square = 0;
        for (i64 j = 0; j < d; j++) square += W[j * l + c] * W[j * l + c];
        for (i64 j = 0; j < d; j++) W[j * l + c] /= std::sqrt(square);
    }
    for (double& w : W) w = double(T(w));
    return W;
}

// A matrix with its row map, and Z in full: z_i = a_i (x_i * s - b_i m).
template <class Rows>
struct Case {
    using T = typename Rows::T;
    i64 n, d;
    std::string name;
    Numbers X, Z, s, m, r, b;
    double unit = 0.5;
    Memory<T> data, scale;
    std::vector<i64> wide_pointers, wide_indices;
    std::vector<std::int32_t> narrow_pointers, narrow_indices;

    Case(i64 n, i64 d, bool mapped, bool sparse, const std::string& name)
        : n(n), d(d), name(name + " " + std::to_string(n) + "x" + std::to_string(d) + (mapped ? " mapped" : "")) {
        X = draw<T>(n * d);
        if (sparse)
            for (double& x : X) x *= generator() % 3 == 0;
        s.assign(d, 1), m.assign(d, 0), r.assign(n, 1), b.assign(n, 1);
        if (mapped) {
            m = draw<double>(d);
            for (double& x : s) x = double(T(0.5 + std::fabs(normal())));
            for (double& x : r) x = 0.5 + std::fabs(normal());
            for (double& x : b) x = 0.5 + std::fabs(normal());
        }
        Z.resize(n * d);
        for (i64 i = 0; i < n; i++)
            for (i64 j = 0; j < d; j++) Z[i * d + j] = unit * r[i] * (X[i * d + j] * s[j] - b[i] * m[j]);
        scale = as<T>(s);
        make(sparse);
        with_map = mapped;
    }

    // Stores X, the zeros of a sparse one left out.
    void make(bool sparse) {
        Numbers stored;
        wide_pointers.push_back(0);
        for (i64 i = 0; i < n; i++) {
            for (i64 j = 0; j < d; j++)
                if (!sparse || X[i * d + j] != 0) stored.push_back(X[i * d + j]), wide_indices.push_back(j);
            wide_pointers.push_back(i64(stored.size()));
        }
        narrow_pointers.assign(wide_pointers.begin(), wide_pointers.end());
        narrow_indices.assign(wide_indices.begin(), wide_indices.end());
        data = as<T>(stored);
    }

    RowMap<T> map() const {
        if (!with_map) return {nullptr, nullptr, nullptr, nullptr, unit, false};
        return {scale.get(), m.data(), r.data(), b.data(), unit, false};
    }
    const std::int32_t* pointers(std::int32_t) const { return narrow_pointers.data(); }
    const i64* pointers(i64) const { return wide_pointers.data(); }
    const std::int32_t* indices(std::int32_t) const { return narrow_indices.data(); }
    const i64* indices(i64) const { return wide_indices.data(); }
    double z(i64 i, i64 j) const { return Z[i * d + j]; }
    bool with_map = false;
};

template <class T>
DenseRows<T> rows_of(const Case<DenseRows<T>>& c) { return {c.n, c.d, c.data.get(), c.map()}; }
template <class T, class I>
CsrRows<T, I> rows_of(const Case<CsrRows<T, I>>& c) {
    return {c.n, c.d, c.pointers(I(0)), c.indices(I(0)), c.data.get(), c.map()};
}

// Z W.
template <class Rows>
Numbers times(const Case<Rows>& c, const Numbers& W, i64 l) {
    Numbers P(c.n * l);
    for (i64 i = 0; i < c.n; i++)
        for (i64 j = 0; j < c.d; j++)
            for (i64 k = 0; k < l; k++) P[i * l + k] += c.z(i, j) * W[j * l + k];
    return P;
}

// ----------------------------------------------------------------------------------------------------- products

template <class T, class I>
void native_product(const Case<CsrRows<T, I>>& c, const Numbers& W, i64 l, Memory<T>& U, Memory<T>& P, bool) {
    const auto rows = rows_of(c);
    const i64 ld = DISPATCH(padded(l));
    Numbers wide(c.d * ld), mW(l);
    for (i64 j = 0; j < c.d; j++)
        for (i64 k = 0; k < l; k++) wide[j * ld + k] = W[j * l + k], mW[k] += c.m[j] * W[j * l + k];
    auto Wp = as<T>(wide), partial = zeros<T>(c.d * ld);
    auto tail = zeros<double>(l);
    DISPATCH(product(rows, 0, c.n, Wp.get(), c.with_map ? mW.data() : nullptr, l, ld, partial.get(), P.get(), l,
                     tail.get()));
    DISPATCH(add_partials(partial.get(), 1, c.d, 0, c.d, l, ld, c.with_map ? c.m.data() : nullptr, tail.get(),
                          U.get(), l));
}

// Products of dense rows, with the map applied to the rows, or to W and U.
template <class T>
void native_product(const Case<DenseRows<T>>& c, const Numbers& W, i64 l, Memory<T>& U, Memory<T>& P, bool late) {
    auto rows = rows_of(c);
    rows.map.late = late;
    const bool apply = late && c.with_map;
    const i64 ld = DISPATCH(column_length<T>(c.d));
    Numbers laid(l * ld), mW(l);
    for (i64 j = 0; j < c.d; j++)
        for (i64 k = 0; k < l; k++) {
            laid[k * ld + j] = W[j * l + k] * (apply ? c.s[j] : 1);
            mW[k] += c.m[j] * W[j * l + k];
        }
    auto Wt = as<T>(laid), room = scratch<T>(DISPATCH(product_room<T>(c.d, l)));
    auto sums = zeros<double>(l * ld), tail = zeros<double>(l);
    // Moments along with it: about their means, or about zero.
    Numbers weight(c.n), mean(c.d), M2(c.d);
    for (i64 i = 0; i < c.n; i++) weight[i] = double(i % 3);
    auto mean_found = zeros<double>(c.d), M2_found = zeros<double>(c.d);
    ColumnSums<T> columns{weight.data(), 0.25, nullptr, nullptr, M2_found.get()};
    if (late) columns = DISPATCH(empty_sums(rows, 0, c.n, weight.data(), 0.25, mean_found.get(), M2_found.get()));
    DISPATCH(product(rows, 0, c.n, Wt.get(), apply ? mW.data() : nullptr, l, sums.get(), P.get(), tail.get(),
                     room.get(), &columns));
    if (late) DISPATCH(finish(columns, c.d));
    for (i64 j = 0; j < c.d; j++) {
        for (i64 i = 0; late && columns.total > 0 && i < c.n; i++)
            mean[j] += weight[i] * 0.25 * c.X[i * c.d + j] / columns.total;
        for (i64 i = 0; i < c.n; i++) M2[j] += weight[i] * std::pow(0.25 * c.X[i * c.d + j] - mean[j], 2);
    }
    compare<double>(c.name + " mean along with a product", mean_found, mean);
    compare<double>(c.name + " M2 along with a product", M2_found, M2);
    for (i64 j = 0; j < c.d; j++)
        for (i64 k = 0; k < l; k++) {
            const double u = sums[k * ld + j];
            U[j * l + k] = T(double(U[j * l + k]) + (apply ? c.s[j] * u - c.m[j] * tail[k] : u));
        }
}

template <class Rows>
void test_products(const Case<Rows>& c) {
    using T = typename Rows::T;
    for (i64 l : {1, 2, 3, 4, 5, 8, 9, 17, 25}) {
        const Numbers W = draw<T>(c.d * l), before = draw<T>(c.d * l), P = times(c, W, l);
        Numbers expected = before;
        for (i64 i = 0; i < c.n; i++)
            for (i64 j = 0; j < c.d; j++)
                for (i64 k = 0; k < l; k++) expected[j * l + k] += c.z(i, j) * P[i * l + k];
        for (bool late : {false, true}) {
            if (late && !std::is_same<Rows, DenseRows<T>>::value) continue;  // sparse rows are always mapped late
            auto U = as<T>(before);
            auto found = zeros<T>(c.n * l);
            native_product(c, W, l, U, found, late);
            const std::string what = ", l = " + std::to_string(l) + (late ? ", late" : "");
            compare<T>(c.name + " product U" + what, U, expected);
            compare<T>(c.name + " product P" + what, found, P);
        }
    }
}

template <class T>
void test_gram(const Case<DenseRows<T>>& c) {
    const i64 side = DISPATCH(gram_side<T>(c.d));
    auto G = zeros<double>(side * side), sums = zeros<double>(6 * side);
    auto strips = scratch<T>(DISPATCH(gram_room<T>(c.d)));
    DISPATCH(gram(rows_of(c), 0, c.n, G.get(), sums.get(), strips.get()));
    Numbers upper, expected, found, exact;
    for (i64 i = 0; i < c.d; i++) {
        double first = 0, squares = 0;
        for (i64 k = 0; k < c.n; k++) first += c.z(k, i) * c.r[k], squares += c.z(k, i) * c.z(k, i);
        found.push_back(sums[i]), exact.push_back(first);
        found.push_back(sums[side + i]), exact.push_back(squares);
        for (i64 j = i; j < c.d; j++) {
            double sum = 0;
            for (i64 k = 0; k < c.n; k++) sum += c.z(k, i) * c.z(k, j);
            upper.push_back(G[i * side + j]), expected.push_back(sum);
        }
    }
    compare<T>(c.name + " gram", upper, expected);
    compare<double>(c.name + " sums of gram", found, exact);
}
template <class T, class I>
void test_gram(const Case<CsrRows<T, I>>&) {}  // only dense rows have one

// ------------------------------------------------------------------------------------------------------ moments

template <class Rows>
void test_moments(const Case<Rows>& c) {
    using T = typename Rows::T;
    const auto rows = rows_of(c);
    Numbers norms(c.n), weight(c.n), mean(c.d), M2(c.d), sum(c.d);
    double total = 0;
    for (i64 i = 0; i < c.n; i++) {
        weight[i] = i % 4;  // every fourth row counts for nothing
        total += weight[i];
        for (i64 j = 0; j < c.d; j++) norms[i] += c.z(i, j) * c.z(i, j);
    }
    for (i64 j = 0; j < c.d; j++) {
        for (i64 i = 0; i < c.n; i++) {
            mean[j] += weight[i] * 0.25 * c.X[i * c.d + j] / total;
            sum[j] += weight[i] * 0.0625 * c.X[i * c.d + j] * c.X[i * c.d + j];
        }
        for (i64 i = 0; i < c.n; i++) M2[j] += weight[i] * std::pow(0.25 * c.X[i * c.d + j] - mean[j], 2);
    }
    auto scratch_row = scratch<T>(DISPATCH(row_size(rows)));
    auto cells = scratch<double>(DISPATCH(cells_size(rows)));
    auto n1 = zeros<double>(c.n), m1 = zeros<double>(c.d), M1 = zeros<double>(c.d), s1 = zeros<double>(c.d);
    double found = 0;
    DISPATCH(row_norms(rows, n1.get(), scratch_row.get()));
    DISPATCH(moments(rows, 0, c.n, weight.data(), 0.25, m1.get(), M1.get(), cells.get(), &found));
    const double squared = DISPATCH(squares(rows, 0, c.n, weight.data(), 0.25, s1.get()));
    compare<T>(c.name + " row_norms", n1, norms);
    compare<double>(c.name + " moments: mean", m1, mean);
    compare<double>(c.name + " moments: M2", M1, M2);
    compare<double>(c.name + " squares", s1, sum);
    compare<double>(c.name + " weights", Numbers{found, squared}, {total, total});
}

// ------------------------------------------------------------------------------------------------------- epochs

// What an epoch needs: W0 with W0^T U = diag(theta), P = Z W0, the order of the rows, weights rho.
template <class Rows>
struct Epoch {
    using T = typename Rows::T;
    i64 l, steps = 60;
    double eta = 0.02;
    Numbers W0, U, P, theta, rho;
    std::vector<i64> order;

    Epoch(const Case<Rows>& c, i64 l) : l(l), W0(orthonormal<T>(c.d, l)), U(draw<T>(c.d * l)), P(times(c, W0, l)) {
        eta /= double(c.d);
        for (i64 k = 0; k < l; k++) {
            theta.push_back(1.0 + double(l - k));
            for (i64 b = 0; b < l; b++) project(c.d, b, k);
            for (i64 j = 0; j < c.d; j++) U[j * l + k] = double(T(U[j * l + k] + theta[k] * W0[j * l + k]));
        }
        for (double& p : P) p = double(T(p));
        for (i64 i = 0; i < c.n; i++) rho.push_back(0.5 + std::fabs(normal()));
        for (i64 t = 0; t < steps; t++) order.push_back(i64(generator() % std::uint64_t(c.n)));
    }

    // Column k of U becomes orthogonal to column b of W0.
    void project(i64 d, i64 b, i64 k) {
        double dot = 0;
        for (i64 j = 0; j < d; j++) dot += W0[j * l + b] * U[j * l + k];
        for (i64 j = 0; j < d; j++) U[j * l + k] -= dot * W0[j * l + b];
    }
};

// z_i^T V, for V (d x l).
template <class Rows>
Numbers row_times(const Case<Rows>& c, i64 i, const Numbers& V, i64 l) {
    Numbers out(l);
    for (i64 j = 0; j < c.d; j++)
        for (i64 k = 0; k < l; k++) out[k] += c.z(i, j) * V[j * l + k];
    return out;
}

// Columns lo..hi of a matrix with l columns.
Numbers columns(const Numbers& M, i64 l, i64 lo, i64 hi) {
    Numbers out;
    for (size_t e = 0; e < M.size(); e++)
        if (i64(e) % l >= lo && i64(e) % l < hi) out.push_back(M[e]);
    return out;
}

// The kernel takes w, w0 and u that are orthogonal to V, as deflation makes them.
template <class Rows>
void test_vr_vector(const Case<Rows>& c, i64 deflated) {
    using T = typename Rows::T;
    const i64 l = 1 + deflated;
    const Epoch<Rows> e(c, l);
    const Numbers start = columns(e.W0, l, 0, 1), U = columns(e.U, l, 0, 1), P = columns(e.P, l, 0, 1);
    const Numbers V = columns(e.W0, l, 1, l), Q = columns(e.P, l, 1, l);
    Numbers v = start;
    for (i64 i : e.order) {
        Numbers z(c.Z.begin() + i * c.d, c.Z.begin() + (i + 1) * c.d);
        for (i64 q = 0; q < deflated; q++)
            for (i64 j = 0; j < c.d; j++) z[j] -= Q[i * deflated + q] * V[j * deflated + q];
        double zv = 0, square = 0;
        for (i64 j = 0; j < c.d; j++) zv += z[j] * v[j];
        for (i64 j = 0; j < c.d; j++) v[j] += e.eta * (e.rho[i] * z[j] * (zv - P[i]) + U[j]);
        for (double x : v) square += x * x;
        for (double& x : v) x /= std::sqrt(square);
    }
    const auto rows = rows_of(c);
    auto w = as<T>(start), w0 = as<T>(start), u = as<T>(U), p = as<T>(P), Vt = as<T>(V), Qt = as<T>(Q);
    auto panel = scratch<T>(DISPATCH(panel_size(rows, 3))), row = scratch<T>(2 * DISPATCH(row_size(rows)));
    auto f = scratch<double>(deflated);
    DISPATCH(vr_vector(rows, w.get(), w0.get(), u.get(), p.get(), deflated ? Vt.get() : nullptr,
                       deflated ? Qt.get() : nullptr, deflated, e.order.data(), e.steps, e.eta, e.rho.data(),
                       panel.get(), row.get(), f.get()));
    compare<T>(c.name + " vr_vector, deflated by " + std::to_string(deflated), w, v);
}

template <class Rows>
void test_vr_block(const Case<Rows>& c, i64 l) {
    using T = typename Rows::T;
    const Epoch<Rows> e(c, l);
    Numbers V = e.W0;
    for (i64 i : e.order) {
        Numbers K(l * l), zV = row_times(c, i, V, l);
        for (i64 j = 0; j < c.d; j++)
            for (i64 a = 0; a < l; a++)
                for (i64 k = 0; k < l; k++) K[a * l + k] += e.W0[j * l + a] * V[j * l + k];
        for (i64 k = 0; k < l; k++)
            for (i64 a = 0; a < l; a++) zV[k] -= e.P[i * l + a] * K[a * l + k];
        for (i64 j = 0; j < c.d; j++)
            for (i64 k = 0; k < l; k++) {
                double uK = 0;
                for (i64 a = 0; a < l; a++) uK += e.U[j * l + a] * K[a * l + k];
                V[j * l + k] += e.eta * (e.rho[i] * c.z(i, j) * zV[k] + uK);
            }
    }
    const auto rows = rows_of(c);
    auto W = as<T>(e.W0), W0 = as<T>(e.W0), U = as<T>(e.U), P = as<T>(e.P);
    auto panel = scratch<T>(DISPATCH(block_panel_size(rows, l))), row = scratch<T>(2 * DISPATCH(row_size(rows)));
    auto small = scratch<double>(DISPATCH(small_size(l)));
    DISPATCH(load_panel(rows, U.get(), l, panel.get()));
    DISPATCH(vr_block(rows, W.get(), W0.get(), panel.get(), P.get(), l, e.theta.data(), l, e.order.data(), e.steps,
                      e.eta, e.rho.data(), row.get(), small.get()));
    compare<T>(c.name + " vr_block, l = " + std::to_string(l), W, V);
}

void gram_schmidt(Numbers& V, i64 d, i64 l) {
    for (i64 k = 0; k < l; k++) {
        double square = 0;
        for (i64 b = 0; b < k; b++) {
            double dot = 0;
            for (i64 j = 0; j < d; j++) dot += V[j * l + b] * V[j * l + k];
            for (i64 j = 0; j < d; j++) V[j * l + k] -= dot * V[j * l + b];
        }
        for (i64 j = 0; j < d; j++) square += V[j * l + k] * V[j * l + k];
        for (i64 j = 0; j < d; j++) V[j * l + k] /= std::sqrt(square);
    }
}

template <class T>
Memory<T> transposed(const Numbers& W, i64 d, i64 l) {
    auto out = scratch<T>(d * l);
    for (i64 j = 0; j < d; j++)
        for (i64 k = 0; k < l; k++) out[k * d + j] = T(W[j * l + k]);
    return out;
}

template <class Rows>
void test_vr_gram_schmidt(const Case<Rows>& c, i64 l) {
    using T = typename Rows::T;
    const Epoch<Rows> e(c, l);
    Numbers V = e.W0;
    for (i64 i : e.order) {
        const Numbers zV = row_times(c, i, V, l);
        for (i64 j = 0; j < c.d; j++)
            for (i64 k = 0; k < l; k++)
                V[j * l + k] += e.eta * (e.rho[i] * c.z(i, j) * (zV[k] - e.P[i * l + k]) + e.U[j * l + k]);
        gram_schmidt(V, c.d, l);
    }
    auto Wt = transposed<T>(e.W0, c.d, l), Ut = transposed<T>(e.U, c.d, l), P = as<T>(e.P), row = scratch<T>(c.d);
    DISPATCH(vr_gram_schmidt(rows_of(c), Wt.get(), Ut.get(), P.get(), l, l, e.order.data(), e.steps, e.eta,
                             e.rho.data(), row.get()));
    auto W = zeros<T>(c.d * l);
    DISPATCH(transpose(Wt.get(), l, c.d, c.d, W.get(), l));
    compare<T>(c.name + " vr_gram_schmidt, l = " + std::to_string(l), W, V);
}

template <class Rows>
void test_oja_block(const Case<Rows>& c, i64 l) {
    using T = typename Rows::T;
    const Epoch<Rows> e(c, l);
    Numbers V = e.W0, eta;
    for (i64 t = 0; t < e.steps; t++) {
        const i64 i = e.order[t];
        const Numbers zV = row_times(c, i, V, l);
        eta.push_back(e.eta / double(1 + t));
        for (i64 j = 0; j < c.d; j++)
            for (i64 k = 0; k < l; k++) V[j * l + k] += eta[t] * e.rho[i] * c.z(i, j) * zV[k];
    }
    const auto rows = rows_of(c);
    auto W = as<T>(e.W0), panel = scratch<T>(DISPATCH(panel_size(rows, l + 1)));
    auto row = scratch<T>(DISPATCH(row_size(rows)));
    auto small = scratch<double>(DISPATCH(small_size(l)));
    DISPATCH(oja_block(rows, W.get(), l, e.order.data(), e.steps, eta.data(), e.rho.data(), panel.get(), row.get(),
                       small.get()));
    compare<T>(c.name + " oja_block, l = " + std::to_string(l), W, V);
}

// ------------------------------------------------------------------------------------------- matrices, vectors

template <class T>
void test_tall(i64 d, i64 l, i64 q) {
    const std::string name = "tall " + std::to_string(d) + "x" + std::to_string(l) + ", " + std::to_string(q);
    const Numbers W = draw<T>(d * l), U = draw<T>(d * q), R0 = draw<T>(d * l), C = draw<double>(l * q);
    Numbers theta(l), H(l * q), G(l * l), S(d * q);
    for (i64 k = 0; k < l; k++) theta[k] = double(k);
    for (i64 j = 0; j < d; j++)
        for (i64 a = 0; a < l; a++) {
            for (i64 k = 0; k < q; k++) {
                H[a * q + k] += W[j * l + a] * U[j * q + k];
                S[j * q + k] += W[j * l + a] * C[a * q + k];
            }
            for (i64 k = 0; k < l; k++)
                G[a * l + k] += (R0[j * l + a] - theta[a] * W[j * l + a]) * (R0[j * l + k] - theta[k] * W[j * l + k]);
        }
    for (i64 e = 0; e < d * q; e++) S[e] += 0.5 * U[e];
    auto Wt = as<T>(W), Ut = as<T>(U), Rt = as<T>(R0), St = as<T>(U);
    auto h = zeros<double>(l * q), g = zeros<double>(l * l);
    auto buffer = scratch<double>(DISPATCH(tall_size(l, std::max(l, q))));
    DISPATCH(cross(Wt.get(), l, Ut.get(), q, d, h.get(), buffer.get()));
    DISPATCH(residual_gram(Wt.get(), Rt.get(), theta.data(), l, d, g.get(), buffer.get()));
    DISPATCH(combine(0.5, St.get(), q, Wt.get(), C.data(), l, d, buffer.get()));
    compare<double>(name + " cross", h, H);
    compare<double>(name + " residual_gram", g, G);
    compare<T>(name + " combine", St, S);
}

template <class T>
void test_sweep(i64 d, i64 m, i64 b) {
    const Numbers S = draw<T>(m * d), V = draw<T>(b * d), K = draw<double>(b * (m + b));
    Numbers all = S, next(b * d), D(b * (m + b));
    all.insert(all.end(), V.begin(), V.end());
    for (i64 a = 0; a < b; a++)
        for (i64 v = 0; v < m + b; v++)
            for (i64 j = 0; j < d; j++) next[a * d + j] += K[a * (m + b) + v] * all[v * d + j];
    std::copy(next.begin(), next.end(), all.begin() + m * d);
    for (i64 a = 0; a < b; a++)
        for (i64 v = 0; v < m + b; v++)
            for (i64 j = 0; j < d; j++) D[a * (m + b) + v] += next[a * d + j] * all[v * d + j];
    auto St = as<T>(S), Vt = as<T>(V), room = scratch<T>(DISPATCH(sweep_size(m, b)));
    auto found = zeros<double>(b * (m + b));
    std::vector<const T*> pointers(2 * (m + b));
    DISPATCH(sweep(St.get(), m, K.data(), Vt.get(), b, b, d, 0, d, found.get(), m + b, room.get(), pointers.data()));
    compare<T>("sweep V", Vt, next);
    compare<T>("sweep D", found, D);
}

// A V = V diag(theta) and V^T V = I for a symmetric A.
void test_eigenpairs(i64 d, i64 count) {
    const std::string name = "eigenpairs " + std::to_string(d);
    const Numbers X = draw<double>(d * d);
    Numbers A(d * d), image(count * d), product(count * count), identity(count * count);
    for (i64 i = 0; i < d; i++)
        for (i64 j = 0; j < d; j++) A[i * d + j] = X[i * d + j] + X[j * d + i];
    auto theta = zeros<double>(count), V = zeros<double>(count * d), room = scratch<double>(DISPATCH(symmetric_size(d)));
    std::vector<i64> order(d);
    const bool done = DISPATCH(eigenpairs(A.data(), d, theta.get(), count, V.get(), count, room.get(), order.data()));
    Numbers scaled(count * d);
    for (i64 a = 0; a < count; a++) {
        identity[a * count + a] = 1;
        for (i64 i = 0; i < d; i++) {
            scaled[a * d + i] = theta[a] * V[a * d + i];
            for (i64 j = 0; j < d; j++) image[a * d + i] += A[i * d + j] * V[a * d + j];
            for (i64 b = 0; b < count; b++) product[a * count + b] += V[a * d + i] * V[b * d + i];
        }
    }
    compare<double>(name + " converged", std::vector<int>{done}, Numbers{1});
    compare<double>(name + " A V", scaled, image);
    compare<double>(name + " V^T V", product, identity);
}

// ---------------------------------------------------------------------------------------------------------- all

template <class Rows>
void test_rows(const std::string& name, bool sparse) {
    for (const bool mapped : {false, true})
        for (const auto& [n, d] : {std::pair<i64, i64>{9, 1}, {33, 7}, {65, 19}, {40, 64}, {11, 1100}}) {
            const Case<Rows> c(n, d, mapped, sparse, name);
            test_products(c);
            test_gram(c);
            test_moments(c);
            for (i64 deflated : {0, 2})
                if (d > deflated) test_vr_vector(c, deflated);
            for (i64 l : {1, 3, 5})
                if (d > l) test_vr_block(c, l), test_vr_gram_schmidt(c, l), test_oja_block(c, l);
        }
}

// Parts that threads share, as the bindings share them.
void test_threads() {
    std::vector<i64> done(7);
    for (i64 round = 0; round < 50; round++) in_parallel(7, [&](i64 part) { done[part]++; });
    compare<double>("threads", done, Numbers(7, 50.0));
}

}  // namespace

int main() {
#define VRPCA_TEST(Rows) test_rows<Rows>(#Rows, false);
    VRPCA_EACH_DENSE(VRPCA_TEST)
#undef VRPCA_TEST
#define VRPCA_TEST(Rows) test_rows<Rows>(#Rows, true);
    VRPCA_EACH_CSR(VRPCA_TEST)
#undef VRPCA_TEST
    for (const auto& [l, q] : {std::pair<i64, i64>{1, 1}, {3, 5}, {8, 8}, {13, 4}})
        for (i64 d : {1, 30, 1025}) test_tall<float>(d, l, q), test_tall<double>(d, l, q);
    for (i64 d : {5, 1024, 2500}) test_sweep<float>(d, 4, 3), test_sweep<double>(d, 4, 3);
    for (i64 d : {1, 2, 7, 16, 33, 70}) test_eigenpairs(d, d), test_eigenpairs(d, (d + 1) / 2);
    test_threads();
    std::printf("%d comparisons, %d wrong (%s)\n", compared, failed, INSTRUCTION_SETS[instruction_set()]);
    return failed != 0;
}
