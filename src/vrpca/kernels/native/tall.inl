// The arithmetic of tall.hpp, compiled once per instruction set.
#include "tall.hpp"

namespace vrpca {
namespace VRPCA_ISA {

constexpr i64 GROUP = 4;  // rows whose outer products are added to the sum at once

// H += sum over a group's rows of a_r b_r^T, rows in double, zero rows where the group is short.
inline void add_outer(const double* a, i64 l, const double* b, i64 q, double* H) {
    for (i64 s = 0; s < l; s++) {
        const double a0 = a[s], a1 = a[l + s], a2 = a[2 * l + s], a3 = a[3 * l + s];
        const double *b0 = b, *b1 = b + q, *b2 = b + 2 * q, *b3 = b + 3 * q;
        double* h = H + s * q;
#pragma omp simd
        for (i64 c = 0; c < q; c++) h[c] += (a0 * b0[c] + a1 * b1[c]) + (a2 * b2[c] + a3 * b3[c]);
    }
}

template <class T>
inline void widen(const T* rows, i64 count, i64 l, double* out) {
#pragma omp simd
    for (i64 e = 0; e < count * l; e++) out[e] = double(rows[e]);
    for (i64 e = count * l; e < GROUP * l; e++) out[e] = 0;
}

template <class T>
void cross(const T* W, i64 l, const T* U, i64 q, i64 d, double* H, double* buffer) {
    double *w = buffer, *u = buffer + GROUP * l;
    for (i64 e = 0; e < l * q; e++) H[e] = 0;
    for (i64 j = 0; j < d; j += GROUP) {
        const i64 count = d - j < GROUP ? d - j : GROUP;
        widen(W + j * l, count, l, w);
        widen(U + j * q, count, q, u);
        add_outer(w, l, u, q, H);
    }
}

template <class T>
void residual_gram(const T* W, const T* U, const double* theta, i64 l, i64 d, double* G, double* buffer) {
    double *w = buffer, *r = buffer + GROUP * l;
    for (i64 e = 0; e < l * l; e++) G[e] = 0;
    for (i64 j = 0; j < d; j += GROUP) {
        const i64 count = d - j < GROUP ? d - j : GROUP;
        widen(W + j * l, count, l, w);
        widen(U + j * l, count, l, r);
        for (i64 g = 0; g < GROUP; g++)
#pragma omp simd
            for (i64 c = 0; c < l; c++) r[g * l + c] -= w[g * l + c] * theta[c];
        add_outer(r, l, r, l, G);
    }
}

template <class T>
void combine(double alpha, T* S, i64 q, const T* W, const double* C, i64 l, i64 d, double* out) {
    for (i64 j = 0; j < d; j++) {
        T* row = S + j * q;
        const T* w = W + j * l;
        for (i64 c = 0; c < q; c++) out[c] = alpha == 0 ? 0 : alpha * double(row[c]);
        for (i64 s = 0; s < l; s++) {
            const double ws = double(w[s]);
            const double* Cs = C + s * q;
#pragma omp simd
            for (i64 c = 0; c < q; c++) out[c] += ws * Cs[c];
        }
        for (i64 c = 0; c < q; c++) row[c] = T(out[c]);
    }
}

#define VRPCA_FOR_TALL(T)                                                                  \
    template void cross(const T*, i64, const T*, i64, i64, double*, double*);              \
    template void residual_gram(const T*, const T*, const double*, i64, i64, double*, double*); \
    template void combine(double, T*, i64, const T*, const double*, i64, i64, double*);
VRPCA_FOR_TALL(float)
VRPCA_FOR_TALL(double)

}  // namespace VRPCA_ISA
}  // namespace vrpca
