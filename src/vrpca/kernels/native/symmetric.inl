// The arithmetic of symmetric.hpp: Householder's reduction to tridiagonal form, then QR steps with Wilkinson's shift
// (Golub and Van Loan, Matrix Computations, section 8.3). The rotations of a step are applied to vectors after the step,
// to several registers of each vector at once.
#pragma once
#include <cmath>

#include "algebra.inl"
#include "symmetric.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// QR steps per eigenvalue, at most. Two are usual.
constexpr i64 MOST_STEPS = 30;

// Registers of a vector that are rotated at once, at most. Rotating one takes four.
constexpr int MOST_ROTATED = REGISTERS / 4;

// A tridiagonal matrix: its diagonal, and what is beside it. beside[k] connects k and k + 1.
struct Tridiagonal {
    double *diagonal, *beside;
    i64 d;
};

// out = H v for a symmetric H (order m, rows ld apart): four rows at a time are added up, so that `out` is read and
// written less often.
inline void symmetric_times(const double* H, i64 m, i64 ld, const double* v, double* out) {
    for (i64 j = 0; j < m; j++) out[j] = 0;
    i64 i = 0;
    for (; i + 4 <= m; i += 4) {
        const double *row = H + i * ld, v0 = v[i], v1 = v[i + 1], v2 = v[i + 2], v3 = v[i + 3];
#pragma omp simd
        for (i64 j = 0; j < m; j++)
            out[j] += (v0 * row[j] + v1 * row[ld + j]) + (v2 * row[2 * ld + j] + v3 * row[3 * ld + j]);
    }
    for (; i < m; i++) axpy(v[i], H + i * ld, out, m);
}

// H (order m, rows ld apart) -= v w^T + w v^T.
inline void subtract_two(double* H, i64 m, i64 ld, const double* v, const double* w) {
    for (i64 i = 0; i < m; i++) {
        const double vi = v[i], wi = w[i];
        double* row = H + i * ld;
#pragma omp simd
        for (i64 j = 0; j < m; j++) row[j] -= vi * w[j] + wi * v[j];
    }
}

// Householder's reduction of H, with rows ld apart. Vector k of the reflections is left in row k of H, right of the
// diagonal. I - tau[k] v v^T is the reflection. `w` has room for a row.
inline void tridiagonalise(double* H, i64 ld, double* tau, double* w, Tridiagonal T) {
    const i64 d = T.d;
    for (i64 k = 0; k < d; k++) {
        T.diagonal[k] = H[k * ld + k];
        if (k + 1 == d) break;
        const i64 m = d - k - 1;
        double *v = H + k * ld + k + 1, *rest = H + (k + 1) * ld + k + 1;
        const double length = std::sqrt(inner(v, v, m)), beside = v[0] > 0 ? -length : length;
        T.beside[k] = beside;
        tau[k] = 0;
        if (length * length == v[0] * v[0]) {  // nothing has to be reflected
            T.beside[k] = v[0];
            continue;
        }
        tau[k] = 1 / (length * length + std::fabs(v[0]) * length);
        v[0] -= beside;
        symmetric_times(rest, m, ld, v, w);
        const double part = tau[k] * inner(w, v, m) / 2;
        for (i64 i = 0; i < m; i++) w[i] = tau[k] * (w[i] - part * v[i]);
        subtract_two(rest, m, ld, v, w);
    }
}

// The eigenvalue of the last two rows and columns that is nearer to the last entry.
inline double wilkinson_shift(double a, double b, double last) {
    const double half = (a - last) / 2, root = std::sqrt(half * half + b * b);
    const double below = half < 0 ? half - root : half + root;
    return below == 0 ? last : last - b * b / below;
}

// A rotation of rows k and k + 1 of vectors, for one k after the other: N registers of each row.
template <int N>
struct Rotated {
    using L = Lanes<double, REGISTER>;
    double* Z;
    i64 ld;
    typename L::V upper[N == 0 ? 1 : N];

    void begin(i64 lo) {
        for (int e = 0; e < N; e++) upper[e] = L::get(Z + lo * ld + e * LANE<double>);
    }
    void rotate(i64 k, double c, double s) {
        double *row = Z + k * ld, *next = row + ld;
        for (int e = 0; e < N; e++) {
            const auto lower = L::get(next + e * LANE<double>);
            L::put(row + e * LANE<double>, c * upper[e] + s * lower);
            upper[e] = c * lower - s * upper[e];
        }
    }
    void end(i64 hi) {
        for (int e = 0; e < N; e++) L::put(Z + hi * ld + e * LANE<double>, upper[e]);
    }
};

// A QR step on lo..hi. The rotation of rows k and k + 1 is c[k] and s[k]. The first N registers of the vectors are
// rotated along: every number here waits for the one before, and the processor has nothing else to do.
template <int N>
inline void qr_step(Tridiagonal T, i64 lo, i64 hi, double* Z, i64 ld, double* c, double* s) {
    double *a = T.diagonal, *b = T.beside;
    double x = a[lo] - wilkinson_shift(a[hi - 1], b[hi - 1], a[hi]), z = b[lo];
    Rotated<N> rows{Z, ld, {}};
    rows.begin(lo);
    for (i64 k = lo; k < hi; k++) {
        const double r = std::sqrt(x * x + z * z), inverse = r > 0 ? 1 / r : 0;
        const double ck = r > 0 ? x * inverse : 1, sk = z * inverse;
        if (k > lo) b[k - 1] = r;
        const double t = sk * (a[k + 1] - a[k]) + 2 * ck * b[k];
        a[k] += sk * t;
        a[k + 1] -= sk * t;
        b[k] = x = ck * t - b[k];
        if (k + 1 < hi) {
            z = sk * b[k + 1];
            b[k + 1] *= ck;
        }
        c[k] = ck;
        s[k] = sk;
        rows.rotate(k, ck, sk);
    }
    rows.end(hi);
}

// The rotations of a QR step, for vectors of which N registers are left.
template <int N>
inline void rotate_rows(double* Z, i64 ld, i64 lo, i64 hi, const double* c, const double* s) {
    Rotated<N> rows{Z, ld, {}};
    rows.begin(lo);
    for (i64 k = lo; k < hi; k++) rows.rotate(k, c[k], s[k]);
    rows.end(hi);
}

// A QR step, and its rotations of vectors of `registers` registers: at most N of them at once.
template <int N>
inline void qr_step_of(i64 registers, Tridiagonal T, i64 lo, i64 hi, double* Z, i64 ld, double* c, double* s) {
    if constexpr (N > 1)
        if (registers < N) return qr_step_of<N - 1>(registers, T, lo, hi, Z, ld, c, s);
    qr_step<N>(T, lo, hi, Z, ld, c, s);
    for (registers -= N, Z += N * LANE<double>; registers >= 4; registers -= 4, Z += 4 * LANE<double>)
        rotate_rows<4>(Z, ld, lo, hi, c, s);
    for (; registers > 0; registers--, Z += LANE<double>) rotate_rows<1>(Z, ld, lo, hi, c, s);
}

// QR steps until nothing is left beside the diagonal but rounding, relative to the largest entry. The rows of Z become
// eigenvectors of T. Returns whether that took no more steps than it should.
inline bool diagonalise(Tridiagonal T, double* Z, i64 ld, double* c, double* s) {
    double largest = 0;
    for (i64 k = 0; k < T.d; k++) {
        const double size = std::fabs(T.diagonal[k]) + (k + 1 < T.d ? std::fabs(T.beside[k]) : 0.0);
        largest = size > largest ? size : largest;
    }
    const double negligible = 0x1p-53 * largest;
    i64 steps = MOST_STEPS * T.d;
    for (i64 hi = T.d - 1; hi > 0;) {
        i64 lo = hi;
        while (lo > 0 && !(std::fabs(T.beside[lo - 1]) <= negligible)) lo--;
        if (lo == hi) {
            hi--;
            continue;
        }
        if (steps-- == 0) return false;
        qr_step_of<MOST_ROTATED>(ld / LANE<double>, T, lo, hi, Z, ld, c, s);
    }
    return true;
}

// The reflections of `tridiagonalise`, the last one first, applied to the rows `order` of Z. The rows do not depend on
// each other, so the processor can overlap them.
inline void reflect(const double* H, i64 ld, const double* tau, i64 d, double* Z, const i64* order, i64 count) {
    for (i64 k = d - 2; k >= 0; k--) {
        const double* v = H + k * ld + k + 1;
        for (i64 i = 0; tau[k] != 0 && i < count; i++) {
            double* z = Z + order[i] * ld + k + 1;
            axpy(-tau[k] * inner(v, z, d - k - 1), v, z, d - k - 1);
        }
    }
}

// order[0..d] = the places of the values, largest first.
inline void sort_down(const double* values, i64 d, i64* order) {
    for (i64 i = 0; i < d; i++) {
        i64 at = i;
        for (; at > 0 && values[order[at - 1]] < values[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

// A power of two that brings the largest entry to about 1, so that squares neither overflow nor vanish; 0 if an entry is
// not finite. It is the product of two numbers, because it may itself be out of range.
struct Unit {
    double first, second;
};
inline Unit unit_of(const double* A, i64 size) {
    double largest = 0;
    for (i64 e = 0; e < size; e++) {
        const double entry = std::fabs(A[e]);
        if (!(entry <= 0x1.fffffffffffffp1023)) return {0, 0};
        largest = entry > largest ? entry : largest;
    }
    int exponent = 0;
    if (largest > 0) std::frexp(largest, &exponent);
    return {std::ldexp(1.0, -(exponent / 2)), std::ldexp(1.0, exponent / 2 - exponent)};
}

bool eigenpairs(const double* A, i64 d, double* theta, double* V, i64 count, double* room, i64* order) {
    const i64 ld = (d + 7) / 8 * 8;
    double *H = room, *Z = H + d * ld, *tau = Z + d * ld, *w = tau + ld, *c = w + ld, *s = c + ld;
    const Tridiagonal T{s + ld, s + 2 * ld, d};
    const Unit unit = unit_of(A, d * d);
    if (unit.first == 0) return false;
    for (i64 i = 0; i < d; i++)
        for (i64 j = 0; j < ld; j++) {
            H[i * ld + j] = j < d ? A[i * d + j] * unit.first * unit.second : 0.0;
            Z[i * ld + j] = i == j ? 1.0 : 0.0;
        }
    tridiagonalise(H, ld, tau, w, T);
    if (!diagonalise(T, Z, ld, c, s)) return false;
    sort_down(T.diagonal, d, order);
    for (i64 i = 0; i < d; i++) theta[i] = T.diagonal[order[i]] / unit.first / unit.second;
    reflect(H, ld, tau, d, Z, order, count);
    for (i64 i = 0; i < count; i++)
        for (i64 j = 0; j < d; j++) V[i * d + j] = Z[order[i] * ld + j];
    return true;
}

}  // namespace VRPCA_ISA
}  // namespace vrpca
