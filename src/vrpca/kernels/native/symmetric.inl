// The arithmetic of symmetric.hpp: Householder's reduction to tridiagonal form, then QR steps with Wilkinson's shift
// (Golub and Van Loan, Matrix Computations, section 8.3). The rotations of a step are applied to vectors along with it.
//
// QR steps find the eigenvalues near the last entry first. So the reduction begins with a vector that is rich in the
// leading eigenvectors, and puts what it makes of it last. Few steps are needed then where few eigenvalues are wanted. A
// Sturm sequence tells that none of those that are left is larger.
#pragma once
#include <cmath>

#include "algebra.inl"
#include "symmetric.hpp"

namespace vrpca {
namespace VRPCA_ISA {

constexpr double LARGEST = 0x1.fffffffffffffp1023;  // finite number

// Squares that count as nothing, where the largest entry is about 1: inverses of smaller ones could overflow.
constexpr double NOTHING = 0x1p-900;

// QR steps per eigenvalue, at most. Two are usual.
constexpr i64 MOST_STEPS = 30;

// Halvings that bring a shift near an eigenvalue: a step or two are enough then.
constexpr i64 HALVINGS = 20;

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

// Householder's reduction of H (order T.d + 1, rows ld apart), whose first row and column are a border: what they hold
// right of the diagonal becomes the first vector. Vector k of the reflections is left in row k of H, right of the
// diagonal. I - tau[k] v v^T is the reflection. T has the rest of the tridiagonal matrix, last entry first. `w` has room
// for a row.
inline void tridiagonalise(double* H, i64 ld, double* tau, double* w, Tridiagonal T) {
    for (i64 k = 0; k <= T.d; k++) {
        if (k > 0) T.diagonal[T.d - k] = H[k * ld + k];
        const i64 m = T.d - k;
        if (m == 0) break;
        double *v = H + k * ld + k + 1, *rest = H + (k + 1) * ld + k + 1;
        const double others = inner(v + 1, v + 1, m - 1), length = std::sqrt(v[0] * v[0] + others);
        const bool reflects = others > NOTHING;  // however small they are beside the first entry
        const double beside = !reflects ? v[0] : v[0] > 0 ? -length : length;
        if (k > 0) T.beside[m - 1] = beside;
        tau[k] = reflects ? 1 / (length * length + std::fabs(v[0]) * length) : 0;
        if (!reflects) continue;
        v[0] -= beside;
        symmetric_times(rest, m, ld, v, w);
        const double part = tau[k] * inner(w, v, m) / 2;
        for (i64 i = 0; i < m; i++) w[i] = tau[k] * (w[i] - part * v[i]);
        subtract_two(rest, m, ld, v, w);
    }
}

// The eigenvalue of rows and columns hi - 1 and hi that is nearer to the last entry.
inline double wilkinson_shift(Tridiagonal T, i64 hi) {
    const double a = T.diagonal[hi - 1], b = T.beside[hi - 1], last = T.diagonal[hi];
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

// A QR step on lo..hi, with a shift. The rotation of rows k and k + 1 is c[k] and s[k]. The first N registers of the vectors are
// rotated along: every number here waits for the one before, and the processor has nothing else to do.
template <int N>
inline void qr_step(Tridiagonal T, double shift, i64 lo, i64 hi, double* Z, i64 ld, double* c, double* s) {
    double *a = T.diagonal, *b = T.beside;
    double x = a[lo] - shift, z = b[lo];
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
inline void qr_step_of(i64 registers, Tridiagonal T, double shift, i64 lo, i64 hi, double* Z, i64 ld, double* c,
                       double* s) {
    if constexpr (N > 1)
        if (registers < N) return qr_step_of<N - 1>(registers, T, shift, lo, hi, Z, ld, c, s);
    qr_step<N>(T, shift, lo, hi, Z, ld, c, s);
    for (registers -= N, Z += N * LANE<double>; registers >= 4; registers -= 4, Z += 4 * LANE<double>)
        rotate_rows<4>(Z, ld, lo, hi, c, s);
    for (; registers > 0; registers--, Z += LANE<double>) rotate_rows<1>(Z, ld, lo, hi, c, s);
}

// How many eigenvalues of the first n rows and columns of T are larger than x: the number of positive pivots of T - x.
inline i64 eigenvalues_above(Tridiagonal T, i64 n, double x) {
    i64 count = 0;
    double pivot = 1;
    for (i64 k = 0; k < n; k++) {
        const double before = k > 0 ? T.beside[k - 1] * T.beside[k - 1] / pivot : 0;
        pivot = T.diagonal[k] - x - before;
        if (pivot == 0) pivot = -0x1p-1000;
        count += pivot > 0;
    }
    return count;
}

// The largest eigenvalue of the first n rows and columns of T, which is between the two numbers: by bisection.
inline double largest_eigenvalue(Tridiagonal T, i64 n, double lower, double upper) {
    for (i64 halving = 0; halving < HALVINGS; halving++) {
        const double middle = (lower + upper) / 2;
        (eigenvalues_above(T, n, middle) ? lower : upper) = middle;
    }
    return upper;
}

// order[0..count] = the places of the values from `first` to `last`, largest first.
inline void sort_down(const double* values, i64 first, i64 last, i64* order) {
    for (i64 i = first; i < last; i++) {
        i64 at = i - first;
        for (; at > 0 && values[order[at - 1]] < values[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

// The larger of the absolute entries of a row of T, added up. No eigenvalue is larger.
inline double size_of(Tridiagonal T) {
    double largest = 0;
    for (i64 k = 0; k < T.d; k++) {
        const double left = k > 0 ? std::fabs(T.beside[k - 1]) : 0, right = k + 1 < T.d ? std::fabs(T.beside[k]) : 0;
        const double size = left + std::fabs(T.diagonal[k]) + right;
        largest = size > largest ? size : largest;
    }
    return largest;
}

// QR steps until the `wanted` largest eigenvalues are on the diagonal: nothing is left beside them but rounding, relative
// to the largest entry, and no eigenvalue of the rest is larger, but for rounding. If one is, the next shift is near it.
// `order` has the places of the eigenvalues. The rows of Z there become eigenvectors of T. Returns whether that took no
// more steps than it should.
inline bool diagonalise(Tridiagonal T, i64 wanted, double* Z, i64 ld, double* c, double* s, i64* order) {
    const double size = size_of(T), negligible = 0x1p-53 * size;
    i64 steps = MOST_STEPS * T.d, rest = T.d;  // the first `rest` rows are not done
    double overlooked = 0;
    bool aims = false;
    while (rest > 0) {
        i64 lo = rest - 1;
        while (lo > 0 && !(std::fabs(T.beside[lo - 1]) <= negligible)) lo--;
        if (lo < rest - 1) {
            if (steps-- == 0) return false;
            const double shift = aims ? overlooked : wilkinson_shift(T, rest - 1);
            qr_step_of<MOST_ROTATED>(ld / LANE<double>, T, shift, lo, rest - 1, Z, ld, c, s);
            aims = false;
            continue;
        }
        rest--;
        if (T.d - rest < wanted) continue;
        sort_down(T.diagonal, rest, T.d, order);
        if (!wanted) return true;
        const double least = T.diagonal[order[wanted - 1]] + 4 * negligible;
        aims = eigenvalues_above(T, rest, least) > 0;
        if (!aims) return true;
        overlooked = largest_eigenvalue(T, rest, least, size);
    }
    return true;
}

// The reflections of `tridiagonalise`, the last one first, applied to the rows `order` of Z. The rows do not depend on
// each other, so the processor can overlap them.
inline void reflect(const double* H, i64 ld, const double* tau, i64 d, double* Z, i64 ldZ, const i64* order, i64 count) {
    for (i64 k = d - 1; k >= 0; k--) {
        const double* v = H + k * ld + k + 1;
        for (i64 i = 0; tau[k] != 0 && i < count; i++) {
            double* z = Z + order[i] * ldZ + k;
            axpy(-tau[k] * inner(v, z, d - k), v, z, d - k);
        }
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
        if (!(entry <= LARGEST)) return {0, 0};
        largest = entry > largest ? entry : largest;
    }
    int exponent = 0;
    if (largest > 0) std::frexp(largest, &exponent);
    return {std::ldexp(1.0, -(exponent / 2)), std::ldexp(1.0, exponent / 2 - exponent)};
}

// H = A with a border: A^2 times the column whose entry on the diagonal is the largest. That may be zero: nothing is
// reflected then. `v` has room for a row.
inline void with_border(const double* A, i64 d, Unit unit, double* H, i64 ld, double* v) {
    for (i64 e = 0; e < (d + 1) * ld; e++) H[e] = 0;
    i64 largest = 0;
    for (i64 i = 0; i < d; i++) {
        for (i64 j = 0; j < d; j++) H[(i + 1) * ld + j + 1] = A[i * d + j] * unit.first * unit.second;
        if (std::fabs(A[i * d + i]) > std::fabs(A[largest * d + largest])) largest = i;
    }
    double* border = H + 1;
    for (i64 j = 0; j < d; j++) border[j] = H[(largest + 1) * ld + j + 1];
    for (i64 again = 0; again < 2; again++) {
        symmetric_times(H + ld + 1, d, ld, border, v);
        for (i64 j = 0; j < d; j++) border[j] = v[j];
    }
}

bool eigenpairs(const double* A, i64 d, double* theta, i64 values, double* V, i64 vectors, double* room, i64* order) {
    const i64 ld = (d + 8) / 8 * 8;
    double *H = room, *Z = H + (d + 1) * ld, *tau = Z + d * ld, *w = tau + ld, *c = w + ld, *s = c + ld;
    const Tridiagonal T{s + ld, s + 2 * ld, d};
    const Unit unit = unit_of(A, d * d);
    if (unit.first == 0) return false;
    with_border(A, d, unit, H, ld, w);
    tridiagonalise(H, ld, tau, w, T);
    for (i64 e = 0; e < d * ld; e++) Z[e] = 0;
    for (i64 i = 0; i < d; i++) Z[i * ld + d - 1 - i] = 1;
    if (!diagonalise(T, values, Z, ld, c, s, order)) return false;
    for (i64 i = 0; i < values; i++) {
        theta[i] = T.diagonal[order[i]] / unit.first / unit.second;
        if (!(std::fabs(theta[i]) <= LARGEST)) return false;
    }
    reflect(H, ld, tau, d, Z, ld, order, vectors);
    for (i64 i = 0; i < vectors; i++)
        for (i64 j = 0; j < d; j++) V[i * d + j] = Z[order[i] * ld + j];
    return true;
}

}  // namespace VRPCA_ISA
}  // namespace vrpca
