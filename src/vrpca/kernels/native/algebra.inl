// Arithmetic on plain vectors and small matrices. The epochs, the products and the kernels for tall matrices share
// it.
#pragma once
#include "simd.inl"

namespace vrpca {
namespace VRPCA_ISA {

// ----------------------------------------------------------------------------------------------------- vectors

// out[r * C + c] = x_r . p_c for R x C pairs of vectors of length d. At least 8 sums run side by side, because an
// addition takes several cycles and the processor begins more than one per cycle.
template <int R, int C, class T>
inline void dots(const T* const* x, const T* const* p, i64 d, T* out) {
    constexpr int lane = int(LANE<T>), unroll = R * C >= 8 ? 1 : 8 / (R * C);
    using L = Lanes<T, REGISTER>;
    using V = typename L::V;
    V sum[R][C][unroll];
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++)
            for (int s = 0; s < unroll; s++) sum[r][c][s] = V{};
    i64 j = 0;
    for (; j + unroll * lane <= d; j += unroll * lane)
        for (int s = 0; s < unroll; s++) {
            V a[R];
            for (int r = 0; r < R; r++) a[r] = L::get(x[r] + j + s * lane);
            for (int c = 0; c < C; c++) {
                V b = L::get(p[c] + j + s * lane);
                for (int r = 0; r < R; r++) sum[r][c][s] += a[r] * b;
            }
        }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            for (int s = 1; s < unroll; s++) sum[r][c][0] += sum[r][c][s];
            T t = total<T>(sum[r][c][0]);
            for (i64 e = j; e < d; e++) t += x[r][e] * p[c][e];
            out[r * C + c] = t;
        }
}

// x . y, summed in T.
template <class T>
inline T dot(const T* x, const T* y, i64 d) {
    T out;
    dots<1, 1>(&x, &y, d, &out);
    return out;
}

// x . y, summed in double. Entries of x are sx apart, those of y are sy apart.
template <class A, class B>
inline double inner(const A* x, const B* y, i64 d, i64 sx = 1, i64 sy = 1) {
    double s = 0;
#pragma omp simd reduction(+ : s)
    for (i64 j = 0; j < d; j++) s += double(x[j * sx]) * double(y[j * sy]);
    return s;
}

// y += h x.
template <class T>
inline void axpy(T h, const T* x, T* y, i64 d) {
#pragma omp simd
    for (i64 j = 0; j < d; j++) y[j] += h * x[j];
}

// ---------------------------------------------------------------------------------------------- small matrices

// Small matrices are in double. Their rows are padded to whole registers of 4 doubles. Nothing reads the padding.
inline i64 quads(i64 l) { return (l + 3) / 4 * 4; }

template <class T>
inline Quad::V widen(const T* p) { return Quad::V{double(p[0]), double(p[1]), double(p[2]), double(p[3])}; }

// out[c] += sum over s < l of x[s] M[s * ld + c].
template <class X>
inline void row_times(const X* x, const double* M, i64 l, i64 ld, double* out) {
    for (i64 c = 0; c < ld; c += 4) {
        Quad::V sum = Quad::get(out + c);
        for (i64 s = 0; s < l; s++) sum += double(x[s]) * Quad::get(M + s * ld + c);
        Quad::put(out + c, sum);
    }
}

// M += x y^T.
template <class X>
inline void add_outer(const X* x, const double* y, i64 l, i64 ld, double* M) {
    for (i64 c = 0; c < ld; c += 4) {
        const Quad::V yc = Quad::get(y + c);
        for (i64 s = 0; s < l; s++) Quad::put(M + s * ld + c, Quad::get(M + s * ld + c) + double(x[s]) * yc);
    }
}

}  // namespace VRPCA_ISA
}  // namespace vrpca
