// The arithmetic of tall.hpp. Rows are converted to double and padded to whole registers.
#pragma once
#include "algebra.inl"
#include "tall.hpp"

namespace vrpca {
namespace VRPCA_ISA {

// Rows whose outer products are added at once. An entry of the sum is loaded and stored once for all of them.
// add_group is written out for four rows.
constexpr i64 GROUP = 4;

// H += sum over the rows of a group of a_r b_r^T. Rows of a are l apart; rows of b and H are ld apart, a multiple of
// 4.
inline void add_group(const double* a, i64 l, const double* b, i64 ld, double* H) {
    for (i64 s = 0; s < l; s++) {
        const double a0 = a[s], a1 = a[l + s], a2 = a[2 * l + s], a3 = a[3 * l + s];
        double* h = H + s * ld;
        for (i64 c = 0; c < ld; c += 4)
            Quad::put(h + c, Quad::get(h + c) + (a0 * Quad::get(b + c) + a1 * Quad::get(b + ld + c)) +
                                 (a2 * Quad::get(b + 2 * ld + c) + a3 * Quad::get(b + 3 * ld + c)));
    }
}

// Converts a group of rows to double, ld apart. Rows past `count` become zero. Columns past l stay as they are.
template <class T>
inline void widen_group(const T* rows, i64 count, i64 l, i64 ld, double* out) {
    for (i64 g = 0; g < GROUP; g++)
        for (i64 c = 0; c < l; c++) out[g * ld + c] = g < count ? double(rows[g * l + c]) : 0;
}

inline void zero(double* p, i64 size) {
    for (i64 e = 0; e < size; e++) p[e] = 0;
}

// Copies `count` rows without their padding.
inline void copy_rows(const double* padded_rows, i64 count, i64 l, i64 ld, double* out) {
    for (i64 s = 0; s < count; s++)
        for (i64 c = 0; c < l; c++) out[s * l + c] = padded_rows[s * ld + c];
}

template <class T>
void cross(const T* W, i64 l, const T* U, i64 q, i64 d, double* H, double* buffer) {
    if (l == 1 && q == 1) {
        H[0] = inner(W, U, d);
        return;
    }
    const i64 ld = quads(q);
    double *w = buffer, *u = w + GROUP * l, *sum = u + GROUP * ld;
    zero(buffer, tall_size(l, q));
    for (i64 j = 0; j < d; j += GROUP) {
        const i64 count = d - j < GROUP ? d - j : GROUP;
        widen_group(W + j * l, count, l, l, w);
        widen_group(U + j * q, count, q, ld, u);
        add_group(w, l, u, ld, sum);
    }
    copy_rows(sum, l, q, ld, H);
}

template <class T>
void residual_gram(const T* W, const T* U, const double* theta, i64 l, i64 d, double* G, double* buffer) {
    if (l == 1) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (i64 j = 0; j < d; j++) {
            const double r = double(U[j]) - double(W[j]) * theta[0];
            sum += r * r;
        }
        G[0] = sum;
        return;
    }
    const i64 ld = quads(l);
    double *w = buffer, *r = w + GROUP * l, *sum = r + GROUP * ld;
    zero(buffer, tall_size(l, l));
    for (i64 j = 0; j < d; j += GROUP) {
        const i64 count = d - j < GROUP ? d - j : GROUP;
        widen_group(U + j * l, count, l, ld, r);
        for (i64 g = 0; g < count; g++)
            for (i64 c = 0; c < l; c++) r[g * ld + c] -= double(W[(j + g) * l + c]) * theta[c];
        copy_rows(r, GROUP, l, ld, w);
        add_group(w, l, r, ld, sum);
    }
    copy_rows(sum, l, l, ld, G);
}

template <class T>
void combine(double alpha, T* S, i64 q, const T* W, const double* C, i64 l, i64 d, double* buffer) {
    const i64 ld = quads(q);
    double *small = buffer, *out = small + l * ld;
    zero(buffer, tall_size(l, q));
    for (i64 s = 0; s < l; s++)
        for (i64 c = 0; c < q; c++) small[s * ld + c] = C[s * q + c];
    for (i64 j = 0; j < d; j++) {
        T* row = S + j * q;
        for (i64 c = 0; alpha != 0 && c < q; c++) out[c] = alpha * double(row[c]);
        for (i64 c = 0; alpha == 0 && c < ld; c++) out[c] = 0;
        row_times(W + j * l, small, l, ld, out);
        for (i64 c = 0; c < q; c++) row[c] = T(out[c]);
    }
}

#define VRPCA_INSTANTIATE(T)                                                                    \
    template void cross(const T*, i64, const T*, i64, i64, double*, double*);                   \
    template void residual_gram(const T*, const T*, const double*, i64, i64, double*, double*); \
    template void combine(double, T*, i64, const T*, const double*, i64, i64, double*);
VRPCA_INSTANTIATE(float)
VRPCA_INSTANTIATE(double)
#undef VRPCA_INSTANTIATE

}  // namespace VRPCA_ISA
}  // namespace vrpca
