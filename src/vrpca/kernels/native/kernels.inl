// The kernels' arithmetic, compiled once per instruction set (see kernels.hpp). Nothing of the C++ library that has
// out-of-line templates is used here: a copy compiled for a newer processor must never be linked in elsewhere.
#include <cmath>

#include "kernels.hpp"

namespace vrpca {
namespace VRPCA_ISA {
constexpr i64 AHEAD = 8;       // rows that are prefetched before their step: sparse ones whole, dense ones their ends
constexpr i64 NEXT = 2;        // dense rows, which are long: the rest
constexpr i64 TILE = 8;        // dense rows that share one walk over W and U
constexpr i64 SUMMED = 128;    // groups of dense rows whose products are summed in T before they are added in double
constexpr double FOLD = 1e-3;  // the lazy scale may shrink this far before the vector is folded
constexpr int MAX_CHUNK = 16;  // columns of a sparse panel handled together

// The empty asm keeps it: gcc drops calls of functions that do nothing but prefetch, as free of side effects.
inline void prefetch(const void* p) {
    __builtin_prefetch(p);
    __asm__ volatile("");
}

inline void prefetch_range(const void* begin, const void* end, i64 most) {
    const char* p = static_cast<const char*>(begin);
    const char* stop = static_cast<const char*>(end);
    if (p + most < stop) stop = p + most;
    for (; p < stop; p += 64) prefetch(p);
}

// A SIMD register of so many bytes, read and written at any address.
template <class T, int bytes>
struct Lanes {
    typedef T V __attribute__((vector_size(bytes)));
    typedef T Unaligned __attribute__((vector_size(bytes), aligned(alignof(T)), may_alias));
    static V get(const T* p) { return *reinterpret_cast<const Unaligned*>(p); }
    static void put(T* p, V v) { *reinterpret_cast<Unaligned*>(p) = v; }
};
template <class T>
struct Scalar {
    using V = T;
    static V get(const T* p) { return *p; }
    static void put(T* p, V v) { *p = v; }
};
template <>
struct Lanes<float, 8> {  // two floats in the lower half of a register
    typedef float V __attribute__((vector_size(16)));
    typedef double Half __attribute__((vector_size(16)));
    static V get(const float* p) {
        double two;
        __builtin_memcpy(&two, p, 8);
        return reinterpret_cast<V>(Half{two, 0});
    }
    static void put(float* p, V v) {
        double two = reinterpret_cast<Half>(v)[0];
        __builtin_memcpy(p, &two, 8);
    }
};
template <>
struct Lanes<float, sizeof(float)> : Scalar<float> {};
template <>
struct Lanes<double, sizeof(double)> : Scalar<double> {};

using Quad = Lanes<double, 32>;

// The sum of a register's elements.
template <class T, class V>
inline T total(V v) {
    T t = 0;
    for (unsigned e = 0; e < sizeof(V) / sizeof(T); e++) t += v[e];
    return t;
}

// N elements in registers of 32 or 16 bytes, or in plain scalars where N does not fill one.
template <class T, int N>
struct Pack {
    static constexpr int all = N * int(sizeof(T));
    static constexpr int bytes = all % 32 == 0 ? 32 : all % 16 == 0 ? 16 : all == 8 ? 8 : int(sizeof(T));
    static constexpr int count = all / bytes;
    static constexpr int lane = bytes / int(sizeof(T));
    using L = Lanes<T, bytes>;
    typename L::V v[count];

    void zero() {
        for (int c = 0; c < count; c++) v[c] = typename L::V{};
    }
    void load(const T* p) {
        for (int c = 0; c < count; c++) v[c] = L::get(p + c * lane);
    }
    void store(T* p) const {
        for (int c = 0; c < count; c++) L::put(p + c * lane, v[c]);
    }
    void add(const Pack& o) {
        for (int c = 0; c < count; c++) v[c] += o.v[c];
    }
    void add_scaled(T s, const T* p) {
        for (int c = 0; c < count; c++) v[c] += s * L::get(p + c * lane);
    }
    void add_product(T s, const Pack& o) {
        for (int c = 0; c < count; c++) v[c] += s * o.v[c];
    }
    void add_to(T s, T* p) const {
        for (int c = 0; c < count; c++) L::put(p + c * lane, L::get(p + c * lane) + s * v[c]);
    }
};

// ------------------------------------------------------------------------------------------------ sparse rows

template <class T, class I>
struct SparseRow {
    const I* j;
    const T* v;
    i64 nnz;
};

template <class T, class I>
inline SparseRow<T, I> raw_row(const CsrRows<T, I>& rows, i64 i) {
    i64 lo = rows.indptr[i];
    return {rows.indices + lo, rows.data + lo, i64(rows.indptr[i + 1]) - lo};
}

// The row as the kernels want it, mapped into `scratch` if need be; `next` is a raw row that will be wanted soon.
template <class T, class I>
inline SparseRow<T, I> row_of(const CsrRows<T, I>& rows, i64 i, T*, const SparseRow<T, I>&) { return raw_row(rows, i); }

template <class T, class I>
inline void prefetch_row(const CsrRows<T, I>& rows, i64 i) {
    i64 lo = rows.indptr[i], hi = rows.indptr[i + 1];
    prefetch_range(rows.indices + lo, rows.indices + hi, 1024);
    prefetch_range(rows.data + lo, rows.data + hi, 1024);
}

// The row's values, times the column scale where there is one (S).
template <bool S, class T, class I>
inline T value(SparseRow<T, I> x, i64 k, const T* scale) {
    return S ? x.v[k] * scale[x.j[k]] : x.v[k];
}

// out[c] = x . column c for C columns; returns |x|^2 (no cost where it is not used).
template <int C, bool S, class T, class I>
inline T project_chunk(SparseRow<T, I> x, const T* scale, const T* panel, i64 ld, T* out) {
    Pack<T, C> s0, s1, s2, s3;  // independent sums hide the latency of the additions
    s0.zero();
    s1.zero();
    s2.zero();
    s3.zero();
    T n0 = 0, n1 = 0;
    i64 k = 0;
    for (; k + 3 < x.nnz; k += 4) {
        const T v0 = value<S>(x, k, scale), v1 = value<S>(x, k + 1, scale);
        const T v2 = value<S>(x, k + 2, scale), v3 = value<S>(x, k + 3, scale);
        s0.add_scaled(v0, panel + i64(x.j[k]) * ld);
        s1.add_scaled(v1, panel + i64(x.j[k + 1]) * ld);
        s2.add_scaled(v2, panel + i64(x.j[k + 2]) * ld);
        s3.add_scaled(v3, panel + i64(x.j[k + 3]) * ld);
        n0 += v0 * v0 + v1 * v1;
        n1 += v2 * v2 + v3 * v3;
    }
    for (; k < x.nnz; k++) {
        const T v = value<S>(x, k, scale);
        s0.add_scaled(v, panel + i64(x.j[k]) * ld);
        n0 += v * v;
    }
    s0.add(s1);
    s2.add(s3);
    s0.add(s2);
    s0.store(out);
    return n0 + n1;
}

template <int C, bool S, class T, class I>
inline void update_chunk(SparseRow<T, I> x, const T* scale, const T* h, T* panel, i64 ld) {
    Pack<T, C> step;
    step.load(h);
    for (i64 k = 0; k < x.nnz; k++) step.add_to(value<S>(x, k, scale), panel + i64(x.j[k]) * ld);
}

// Calls f with a compile-time chunk width for columns c, c + width, ... until all are covered; past four columns the
// width is a multiple of 4, so the caller pads.
template <class F>
inline void for_chunks(i64 columns, F&& f) {
    i64 c = 0;
    while (c < columns) {
        i64 left = columns - c;
        if (left >= MAX_CHUNK) { f.template run<MAX_CHUNK>(c); c += MAX_CHUNK; }
        else if (left >= 8) { f.template run<8>(c); c += 8; }
        else if (left >= 4) { f.template run<4>(c); c += 4; }
        else if (left == 3) { f.template run<3>(c); c += 3; }
        else if (left == 2) { f.template run<2>(c); c += 2; }
        else { f.template run<1>(c); c += 1; }
    }
}

inline i64 padded(i64 columns) { return columns <= 2 ? columns : columns <= 4 ? 4 : (columns + 7) / 8 * 8; }

// A d x q panel, row-major: a nonzero touches one or two cache lines.
template <class T, class I>
struct SparsePanel {
    const CsrRows<T, I>& rows;
    T* data;
    i64 ld;

    SparsePanel(const CsrRows<T, I>& r, T* buffer, i64 q) : rows(r), data(buffer), ld(padded(q)) {}
    void clear() {
        for (i64 s = 0; s < rows.d * ld; s++) data[s] = 0;
    }
    T& at(i64 j, i64 c) { return data[j * ld + c]; }

    template <bool S>
    struct Project {
        SparseRow<T, I> x;
        const T* scale;
        const T* panel;
        i64 ld;
        T* out;
        template <int C>
        void run(i64 c) { project_chunk<C, S>(x, scale, panel + c, ld, out + c); }
    };
    template <bool S>
    struct Update {
        SparseRow<T, I> x;
        const T* scale;
        T* panel;
        i64 ld;
        const T* h;
        template <int C>
        void run(i64 c) { update_chunk<C, S>(x, scale, h + c, panel + c, ld); }
    };
    // out[c] = x . column c, all of them; out has room for `ld`.
    void project(const SparseRow<T, I>& x, T* out) const {
        const T* s = rows.map.col_scale;
        if (s) for_chunks(ld, Project<true>{x, s, data, ld, out});
        else for_chunks(ld, Project<false>{x, s, data, ld, out});
    }
    // column c += h[c] x for c < columns; h is zero from there on, as far as `ld` reaches. What is written is as wide
    // as what `project` reads (u, m and the padding get zero added): a load can be served by a recent store of its own
    // width, but has to wait for a narrower one.
    void update(const SparseRow<T, I>& x, const T* h, i64 columns) {
        const T* s = rows.map.col_scale;
        i64 width = ld <= 4 ? ld : (columns + 7) / 8 * 8;
        if (s) for_chunks(width, Update<true>{x, s, data, ld, h});
        else for_chunks(width, Update<false>{x, s, data, ld, h});
    }
    // column c += h[c] last for c < l, then out = x . columns.
    void advance(const SparseRow<T, I>& last, const T* h, const SparseRow<T, I>& x, const SparseRow<T, I>&, i64 l,
                 T* out) {
        update(last, h, l);
        project(x, out);
    }
    // The same for l = 1, with 2 or 3 columns in all; h and out have room for 4. Returns |x|^2.
    void update_one(const SparseRow<T, I>& x, const T* h) {
        if (ld == 2) update_narrow<2>(x, h);
        else update_narrow<4>(x, h);
    }
    T advance_one(const SparseRow<T, I>& last, const T* h, const SparseRow<T, I>& x, const SparseRow<T, I>&, T* out) {
        update_one(last, h);
        return ld == 2 ? project_narrow<2>(x, out) : project_narrow<4>(x, out);
    }
    template <int C>
    void update_narrow(const SparseRow<T, I>& x, const T* h) {
        const T* s = rows.map.col_scale;
        if (s) update_chunk<C, true>(x, s, h, data, C);
        else update_chunk<C, false>(x, s, h, data, C);
    }
    template <int C>
    T project_narrow(const SparseRow<T, I>& x, T* out) const {
        const T* s = rows.map.col_scale;
        return s ? project_chunk<C, true>(x, s, data, C, out) : project_chunk<C, false>(x, s, data, C, out);
    }
    T squared_norm(const SparseRow<T, I>& x) const {
        const T* s = rows.map.col_scale;
        T sum = 0;
        if (s) {
            for (i64 k = 0; k < x.nnz; k++) sum += value<true>(x, k, s) * value<true>(x, k, s);
            return sum;
        }
#pragma omp simd reduction(+ : sum)
        for (i64 k = 0; k < x.nnz; k++) sum += x.v[k] * x.v[k];
        return sum;
    }
};

// ------------------------------------------------------------------------------------------------- dense rows

template <class T>
struct DenseRow {
    const T* z;
};

template <class T>
inline bool mapped(const DenseRows<T>& rows) { return rows.map.col_scale || rows.map.shift; }

// x * s - b m into `out`. In double: a large mean must cancel before anything is rounded to float.
template <class T>
inline void map_row(const DenseRows<T>& rows, i64 i, T* out, const T* next) {
    using Four = Lanes<T, 4 * sizeof(T)>;
    const T* x = rows.X + i * rows.d;
    const T* s = rows.map.col_scale;
    const double* m = rows.map.shift;
    const double b = rows.map.b(i);
    const i64 d = rows.d;
    i64 j = 0;
    if (!m) {
#pragma omp simd
        for (i64 k = 0; k < d; k++) out[k] = x[k] * s[k];
        return;
    }
    for (; j + 4 <= d; j += 4) {
        if (j % 32 == 0) prefetch(next + j / 2);  // one half of it; the other is left to the panel's walk
        Quad::V z = __builtin_convertvector(Four::get(x + j), Quad::V);
        if (s) z *= __builtin_convertvector(Four::get(s + j), Quad::V);
        Four::put(out + j, __builtin_convertvector(z - b * Quad::get(m + j), typename Four::V));
    }
    for (; j < d; j++) out[j] = T(double(x[j]) * (s ? double(s[j]) : 1.0) - b * m[j]);
}

template <class T>
inline DenseRow<T> raw_row(const DenseRows<T>& rows, i64 i) { return {rows.X + i * rows.d}; }

template <class T>
inline DenseRow<T> row_of(const DenseRows<T>& rows, i64 i, T* scratch, const DenseRow<T>& next) {
    if (!mapped(rows)) return raw_row(rows, i);
    map_row(rows, i, scratch, next.z);
    return {scratch};
}

template <class T>
inline void prefetch_row(const DenseRows<T>& rows, i64 i) {
    const T* x = rows.X + i * rows.d;
    prefetch_range(x, x + rows.d, 8192);
}

// out[r * C + c] = x_r . p_c for R x C pairs of vectors of length d, with enough independent sums to hide latency.
template <int R, int C, class T>
inline void dots(const T* const* x, const T* const* p, i64 d, T* out) {
    constexpr int lane = 32 / int(sizeof(T)), unroll = R * C >= 8 ? 1 : 8 / (R * C);
    using L = Lanes<T, 32>;
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

template <class T>
inline T dot(const T* x, const T* y, i64 d) {
    T out;
    dots<1, 1>(&x, &y, d, &out);
    return out;
}

// out[c] = x . (column c of p), columns d long and ld apart.
template <class T>
inline void project_columns(const T* x, const T* p, i64 ld, i64 columns, i64 d, T* out) {
    i64 c = 0;
    for (; c + 4 <= columns; c += 4) {
        const T* q[4] = {p + c * ld, p + (c + 1) * ld, p + (c + 2) * ld, p + (c + 3) * ld};
        dots<1, 4>(&x, q, d, out + c);
    }
    for (; c + 2 <= columns; c += 2) {
        const T* q[2] = {p + c * ld, p + (c + 1) * ld};
        dots<1, 2>(&x, q, d, out + c);
    }
    for (; c < columns; c++) out[c] = dot(x, p + c * ld, d);
}

template <class T>
inline void axpy(T h, const T* x, T* y, i64 d) {
#pragma omp simd
    for (i64 j = 0; j < d; j++) y[j] += h * x[j];
}

// A d x q panel, column-major: any number of columns fills the vector registers.
template <class T>
struct DensePanel {
    const DenseRows<T>& rows;
    T* data;
    i64 q;
    bool turn = false;

    DensePanel(const DenseRows<T>& r, T* buffer, i64 columns) : rows(r), data(buffer), q(columns) {}
    void clear() {
        for (i64 s = 0; s < rows.d * q; s++) data[s] = 0;
    }
    T& at(i64 j, i64 c) { return data[c * rows.d + j]; }
    void project(const DenseRow<T>& x, T* out) const { project_columns(x.z, data, rows.d, q, rows.d, out); }
    void update(const DenseRow<T>& x, const T* h, i64 columns) {
        for (i64 c = 0; c < columns; c++) axpy(h[c], x.z, data + c * rows.d, rows.d);
    }
    // column c += h[c] last for c < l, then out = x . columns; returns |x|^2. Asks for the row after x while it goes.
    T advance(const DenseRow<T>& last, const T* h, const DenseRow<T>& x, const DenseRow<T>& next, i64 l, T* out) {
        const bool half = mapped(rows);  // then the first half has been asked for
        const T* ask = half ? next.z + rows.d / 2 : next.z;
        const i64 groups = (l + 2) / 3;
        T xx = 0;
        for (i64 k = 0; k < groups; k++) {  // to and fro: what the last step has left in the cache comes first
            const i64 g = turn ? groups - 1 - k : k, c = l * g / groups, width = l * (g + 1) / groups - c;
            if (width == 3) xx = advance_group<3>(last.z, h + c, x.z, ask, half, c, l, out);
            else if (width == 2) xx = advance_group<2>(last.z, h + c, x.z, ask, half, c, l, out);
            else xx = advance_group<1>(last.z, h + c, x.z, ask, half, c, l, out);
            ask = nullptr;
        }
        turn = !turn;
        return xx;
    }
    void update_one(const DenseRow<T>& x, const T* h) { update(x, h, 1); }
    T advance_one(const DenseRow<T>& last, const T* h, const DenseRow<T>& x, const DenseRow<T>& next, T* out) {
        return advance(last, h, x, next, 1, out);
    }
    // The same for C columns from c on and their partners l columns further: one walk over all of them.
    template <int C>
    T advance_group(const T* last, const T* h_, const T* x, const T* next, bool half, i64 c0, i64 l, T* out) {
        using L = Lanes<T, 32>;
        using V = typename L::V;
        constexpr int lane = 32 / int(sizeof(T)), unroll = C == 1 ? 2 : 1;
        const i64 d = rows.d;
        T *e[C], *u[C], h[C];
        V se[C][unroll], su[C][unroll], sx[unroll];
        for (int c = 0; c < C; c++) {
            e[c] = data + (c0 + c) * d;
            u[c] = e[c] + l * d;
            h[c] = h_[c];
            for (int s = 0; s < unroll; s++) se[c][s] = su[c][s] = V{};
        }
        for (int s = 0; s < unroll; s++) sx[s] = V{};
        i64 j = 0;
        for (; j + unroll * lane <= d; j += unroll * lane) {
            if (next) prefetch(next + (j >> half));
            for (int s = 0; s < unroll; s++) {
                const i64 k = j + s * lane;
                const V xk = L::get(x + k), lk = L::get(last + k);
                for (int c = 0; c < C; c++) {
                    const V ek = L::get(e[c] + k) + h[c] * lk;
                    L::put(e[c] + k, ek);
                    se[c][s] += xk * ek;
                    su[c][s] += xk * L::get(u[c] + k);
                }
                sx[s] += xk * xk;
            }
        }
        T xx = 0;
        for (int c = 0; c < C; c++) {
            T xe = 0, xu = 0;
            for (i64 k = j; k < d; k++) {
                e[c][k] += h[c] * last[k];
                xe += x[k] * e[c][k];
                xu += x[k] * u[c][k];
            }
            for (int s = 1; s < unroll; s++) {
                se[c][0] += se[c][s];
                su[c][0] += su[c][s];
            }
            out[c0 + c] = xe + total<T>(se[c][0]);
            out[c0 + c + l] = xu + total<T>(su[c][0]);
        }
        for (i64 k = j; k < d; k++) xx += x[k] * x[k];
        for (int s = 1; s < unroll; s++) sx[0] += sx[s];
        return xx + total<T>(sx[0]);
    }
    T squared_norm(const DenseRow<T>& x) const { return dot(x.z, x.z, rows.d); }
};

// -------------------------------------------------------------------------------- what the two kinds have in common

template <class T, class I>
inline i64 panel_size(const CsrRows<T, I>& rows, i64 columns) { return rows.d * padded(columns); }
template <class T>
inline i64 panel_size(const DenseRows<T>& rows, i64 columns) { return rows.d * columns; }
template <class T, class I>
inline i64 row_size(const CsrRows<T, I>&) { return 1; }
template <class T>
inline i64 row_size(const DenseRows<T>& rows) { return rows.d; }


template <class T, class I>
inline SparsePanel<T, I> make_panel(const CsrRows<T, I>& rows, T* buffer, i64 q) { return {rows, buffer, q}; }
template <class T>
inline DensePanel<T> make_panel(const DenseRows<T>& rows, T* buffer, i64 q) { return {rows, buffer, q}; }

// Sparse rows are asked for well in advance. Dense ones are while the step before the last walks over its vectors, but
// their ends earlier: that finds the pages, which takes as long again.
template <class T, class I>
inline void prefetch_far(const CsrRows<T, I>& rows, const i64* order, i64 t, i64 m) {
    if (t + AHEAD < m) prefetch_row(rows, order[t + AHEAD]);
}
template <class T>
inline void prefetch_far(const DenseRows<T>& rows, const i64* order, i64 t, i64 m) {
    if (t + AHEAD < m) {
        const T* x = raw_row(rows, order[t + AHEAD]).z;
        prefetch(x);
        prefetch(x + rows.d - 1);
    }
}

template <class T, class I>
constexpr i64 ahead(const CsrRows<T, I>&) { return AHEAD; }
template <class T>
constexpr i64 ahead(const DenseRows<T>&) { return NEXT; }

template <class Rows>
inline auto row_of(const Rows& rows, i64 i, typename Rows::T* scratch) {
    return row_of(rows, i, scratch, raw_row(rows, i));
}

// The shift vector that stays outside the rows: sparse rows must not be filled in, dense ones have it subtracted.
template <class T, class I>
inline const double* lazy_shift(const CsrRows<T, I>& rows) { return rows.map.shift; }
template <class T>
inline const double* lazy_shift(const DenseRows<T>&) { return nullptr; }

template <class T, class I>
inline double dot_shift(const CsrRows<T, I>& rows, const SparseRow<T, I>& x, const double* m) {
    double s = 0;
    for (i64 k = 0; k < x.nnz; k++)
        s += double(x.v[k]) * (rows.map.col_scale ? double(rows.map.col_scale[x.j[k]]) : 1.0) * m[x.j[k]];
    return s;
}
template <class T>
inline double dot_shift(const DenseRows<T>&, const DenseRow<T>&, const double*) { return 0; }

template <class A, class B>
inline double inner(const A* x, const B* y, i64 d, i64 sx = 1, i64 sy = 1) {
    double s = 0;
#pragma omp simd reduction(+ : s)
    for (i64 j = 0; j < d; j++) s += double(x[j * sx]) * double(y[j * sy]);
    return s;
}

// The columns of vr_block's panel: E | U, and m where it stays outside the rows.
template <class Rows>
inline i64 block_columns(const Rows& rows, i64 l) { return 2 * l + (lazy_shift(rows) ? 1 : 0); }

template <class Rows>
i64 Size<Rows>::columns(i64 l) { return padded(l); }
template <class Rows>
i64 Size<Rows>::panel(const Rows& rows, i64 columns) { return panel_size(rows, columns); }
template <class Rows>
i64 Size<Rows>::block_panel(const Rows& rows, i64 l) { return panel_size(rows, block_columns(rows, l)); }
template <class Rows>
i64 Size<Rows>::row(const Rows& rows) { return row_size(rows); }
template <class Rows>
i64 Size<Rows>::tile(const Rows& rows) { return TILE * row_size(rows); }

// ---------------------------------------------------------------------------------------------------- products

// y = a (x^T W - b m^T W) for C columns from c on, of which l - c count; then times a, as U += a x y^T wants it.
template <class T>
struct FusedStep {
    const double* mW;
    i64 l;
    T* P;
    double* tail;
    void operator()(T* y, int C, i64 c, i64 i, double a, double b) const {
        for (int s = 0; s < C && c + s < l; s++) {
            double yc = a * double(y[s]);
            if (mW) {
                yc -= a * b * mW[c + s];
                tail[c + s] += a * b * yc;
            }
            if (P) P[i * l + c + s] = T(yc);
            y[s] = T(a * yc);
        }
    }
};

template <bool S, class T, class I>
struct FusedRow {  // one row, one chunk of columns
    const CsrRows<T, I>& rows;
    i64 i;
    const T* W;
    T* U;
    i64 ld;
    const FusedStep<T>& step;
    template <int C>
    void run(i64 c) {
        T y[C];
        const SparseRow<T, I> x = raw_row(rows, i);
        project_chunk<C, S>(x, rows.map.col_scale, W + c, ld, y);
        step(y, C, c, i, rows.map.a(i), rows.map.b(i));
        update_chunk<C, S>(x, rows.map.col_scale, y, U + c, ld);
    }
};

// y = x^T W, and U += before h^T along with it: the one does not wait for the other.
template <int C, bool S, class T, class I>
inline void project_and_update(SparseRow<T, I> x, SparseRow<T, I> before, const T* scale, const T* W, T* U, i64 ld,
                               const Pack<T, C>& h, T* y) {
    Pack<T, C> s0, s1;
    s0.zero();
    s1.zero();
    const i64 both = (x.nnz < before.nnz ? x.nnz : before.nnz) & ~i64(1);
    i64 k = 0;
    for (; k < both; k += 2) {
        s0.add_scaled(value<S>(x, k, scale), W + i64(x.j[k]) * ld);
        s1.add_scaled(value<S>(x, k + 1, scale), W + i64(x.j[k + 1]) * ld);
        h.add_to(value<S>(before, k, scale), U + i64(before.j[k]) * ld);
        h.add_to(value<S>(before, k + 1, scale), U + i64(before.j[k + 1]) * ld);
    }
    for (i64 r = k; r + 1 < x.nnz; r += 2) {
        s0.add_scaled(value<S>(x, r, scale), W + i64(x.j[r]) * ld);
        s1.add_scaled(value<S>(x, r + 1, scale), W + i64(x.j[r + 1]) * ld);
    }
    if ((x.nnz - k) & 1) s0.add_scaled(value<S>(x, x.nnz - 1, scale), W + i64(x.j[x.nnz - 1]) * ld);
    for (; k < before.nnz; k++) h.add_to(value<S>(before, k, scale), U + i64(before.j[k]) * ld);
    s0.add(s1);
    s0.store(y);
}

template <bool S, class T, class I>
struct FusedRows {  // all rows, all columns in one chunk
    const CsrRows<T, I>& rows;
    i64 lo, hi;
    const T* W;
    T* U;
    i64 ld;
    const FusedStep<T>& step;
    template <int C>
    void run(i64 c) {
        SparseRow<T, I> before{nullptr, nullptr, 0};
        T y[C];
        Pack<T, C> h;
        h.zero();
        for (i64 i = lo; i < hi; i++) {
            const SparseRow<T, I> x = raw_row(rows, i);
            project_and_update<C, S>(x, before, rows.map.col_scale, W, U, ld, h, y);
            step(y, C, c, i, rows.map.a(i), rows.map.b(i));
            h.load(y);
            before = x;
        }
        for (i64 k = 0; k < before.nnz; k++)
            h.add_to(value<S>(before, k, rows.map.col_scale), U + i64(before.j[k]) * ld);
    }
};

template <bool S, class T, class I>
void product_rows(const CsrRows<T, I>& rows, i64 lo, i64 hi, const T* W, const double* mW, i64 l, i64 ld, T* U, T* P,
                  double* tail) {
    const FusedStep<T> step{mW, l, P, tail};
    if (ld <= 4 || ld == 8 || ld == MAX_CHUNK) {
        for_chunks(ld, FusedRows<S, T, I>{rows, lo, hi, W, U, ld, step});
        return;
    }
    for (i64 i = lo; i < hi; i++) for_chunks(ld, FusedRow<S, T, I>{rows, i, W, U, ld, step});
}

template <class T, class I>
void product(const CsrRows<T, I>& rows, i64 lo, i64 hi, const T* W, const double* mW, i64 l, i64 ld, T* U, T* P,
             double* tail) {
    if (rows.map.col_scale) product_rows<true>(rows, lo, hi, W, mW, l, ld, U, P, tail);
    else product_rows<false>(rows, lo, hi, W, mW, l, ld, U, P, tail);
}

template <class T>
void add_partials(const T* partial, i64 parts, i64 d, i64 lo, i64 hi, i64 l, i64 ld, const double* m,
                  const double* tail, T* U) {
    if (!m && l == ld) {  // the same layout: one flat vector
        for (i64 p = 0; p < parts; p++)
#pragma omp simd
            for (i64 s = lo * l; s < hi * l; s++) U[s] += partial[p * d * l + s];
        return;
    }
    for (i64 j = lo; j < hi; j++)
        for (i64 c = 0; c < l; c++) {
            double u = m ? -m[j] * tail[c] : 0;
            for (i64 p = 0; p < parts; p++) u += double(partial[(p * d + j) * ld + c]);
            U[j * l + c] = T(double(U[j * l + c]) + u);
        }
}

// Ut[c] += sum over a tile's rows of y[c][r] z_r for C columns: each row is loaded once for all of them. Sums of TILE
// products are formed in T, then added in double: rounding does not grow with the number of rows.
template <int C, class T>
inline void add_tile(const T* const* z, const T (*y)[TILE], i64 d, double* Ut) {
    const T *z0 = z[0], *z1 = z[1], *z2 = z[2], *z3 = z[3], *z4 = z[4], *z5 = z[5], *z6 = z[6], *z7 = z[7];
    const T* last = y[C - 1];
    double* ut = Ut + (C - 1) * d;
#pragma omp simd
    for (i64 j = 0; j < d; j++) {
        Ut[j] += double(((y[0][0] * z0[j] + y[0][1] * z1[j]) + (y[0][2] * z2[j] + y[0][3] * z3[j])) +
                        ((y[0][4] * z4[j] + y[0][5] * z5[j]) + (y[0][6] * z6[j] + y[0][7] * z7[j])));
        if (C == 2)
            ut[j] += double(((last[0] * z0[j] + last[1] * z1[j]) + (last[2] * z2[j] + last[3] * z3[j])) +
                            ((last[4] * z4[j] + last[5] * z5[j]) + (last[6] * z6[j] + last[7] * z7[j])));
    }
}

// C columns of a tile: y = Z W, then U += Z^T y. A short tile repeats its last row with weight zero.
template <int C, class T>
inline void product_tile(const DenseRows<T>& rows, i64 i, i64 count, const T* const* z, const T* Wt, i64 c, i64 l,
                         double* Ut, T* P) {
    const i64 d = rows.d;
    const T* w[2] = {Wt + c * d, Wt + (c + C - 1) * d};
    T y[C][TILE], out[4 * C];
    for (i64 r = 0; r < TILE; r += 4) {
        dots<4, C>(z + r, w, d, out);
        for (i64 s = 0; s < 4; s++)
            for (i64 q = 0; q < C; q++) {
                if (r + s >= count) {
                    y[q][r + s] = 0;
                    continue;
                }
                double a = rows.map.a(i + r + s), yc = a * double(out[s * C + q]);
                if (P) P[(i + r + s) * l + c + q] = T(yc);
                y[q][r + s] = T(a * yc);
            }
    }
    add_tile<C>(z, y, d, Ut + c * d);
}

template <class T>
void product(const DenseRows<T>& rows, i64 lo, i64 hi, const T* Wt, i64 l, double* Ut, T* P, T* tile) {
    for (i64 i = lo; i < hi; i += TILE) {
        const i64 count = hi - i < TILE ? hi - i : TILE;
        const T* z[TILE];
        for (i64 r = 0; r < TILE; r++) z[r] = r < count ? row_of(rows, i + r, tile + r * rows.d).z : z[count - 1];
        i64 c = 0;
        for (; c + 2 <= l; c += 2) product_tile<2>(rows, i, count, z, Wt, c, l, Ut, P);
        if (c < l) product_tile<1>(rows, i, count, z, Wt, c, l, Ut, P);
    }
}

// y (R x WIDE) = Z W for rows z and the columns of one panel.
template <int R, class T>
inline void project_rows(const T* const* z, i64 d, const T* panel, T* y) {
    Pack<T, WIDE> s[R];
    for (int r = 0; r < R; r++) s[r].zero();
    for (i64 j = 0; j < d; j++)
        for (int r = 0; r < R; r++) s[r].add_scaled(z[r][j], panel + j * WIDE);
    for (int r = 0; r < R; r++) s[r].store(y + r * WIDE);
}

// The panel of U += Z^T y.
template <int R, class T>
inline void update_rows(const T* const* z, i64 d, const T* y, T* panel) {
    Pack<T, WIDE> h[R];
    for (int r = 0; r < R; r++) h[r].load(y + r * WIDE);
    for (i64 j = 0; j < d; j++) {
        Pack<T, WIDE> even, odd;  // two sums, which do not wait for each other
        even.load(panel + j * WIDE);
        odd.zero();
        for (int r = 0; r < R; r += 2) {
            even.add_product(z[r][j], h[r]);
            odd.add_product(z[r + 1][j], h[r + 1]);
        }
        even.add(odd);
        even.store(panel + j * WIDE);
    }
}

template <class T>
void wide_product(const DenseRows<T>& rows, i64 lo, i64 hi, const T* panels, i64 l, T* sums, double* totals, T* P,
                  T* tile) {
    constexpr int R = 32 / int(sizeof(T));  // as many rows as there are registers for
    const i64 d = rows.d, count = (l + WIDE - 1) / WIDE, size = count * d * WIDE;
    for (i64 i = lo; i < hi; i += R) {
        const T* z[R];
        for (i64 r = 0; r < R; r++) z[r] = i + r < hi ? row_of(rows, i + r, tile + r * d).z : z[r - 1];
        for (i64 c = 0; c < count; c++) {
            T y[R * WIDE];
            project_rows<R>(z, d, panels + c * d * WIDE, y);
            for (i64 r = 0; r < R; r++)
                for (i64 s = 0; s < WIDE; s++) {
                    const double a = i + r < hi ? rows.map.a(i + r) : 0, yc = a * double(y[r * WIDE + s]);
                    if (P && i + r < hi && c * WIDE + s < l) P[(i + r) * l + c * WIDE + s] = T(yc);
                    y[r * WIDE + s] = T(a * yc);  // nothing for rows that are not there
                }
            update_rows<R>(z, d, y, sums + c * d * WIDE);
        }
        if ((i - lo) / R % SUMMED == SUMMED - 1 || i + R >= hi)
            for (i64 e = 0; e < size; e++) {
                totals[e] += double(sums[e]);
                sums[e] = 0;
            }
    }
}

// Columns of Z that are multiplied together: two registers of them.
template <class T>
constexpr i64 STRIP = 64 / i64(sizeof(T));
constexpr i64 BROADCAST = 4;         // columns that are multiplied with a strip
constexpr i64 GRAM_BYTES = 1 << 17;  // rows that stay in the cache while all pairs of columns are formed

template <class T>
i64 gram_side(i64 d) { return (d + 1 + STRIP<T> - 1) / STRIP<T> * STRIP<T>; }

template <class T>
i64 gram_rows(i64 d) {
    const i64 rows = GRAM_BYTES / (gram_side<T>(d) * i64(sizeof(T)));
    return rows < 16 ? 16 : rows > 512 ? 512 : rows;
}

template <class T>
i64 gram_room(i64 d) { return gram_side<T>(d) * gram_rows<T>(d) + d; }

// Products of BROADCAST columns with a strip, summed over the rows in T, then added in double.
template <class T>
inline void gram_tile(const T* left, const T* right, i64 count, double* G, i64 side) {
    constexpr int S = int(STRIP<T>);
    Pack<T, S> sum[BROADCAST];
    for (int q = 0; q < BROADCAST; q++) sum[q].zero();
    for (i64 r = 0; r < count; r++) {
        Pack<T, S> y;
        y.load(right + r * S);
        for (int q = 0; q < BROADCAST; q++) sum[q].add_product(left[r * S + q], y);
    }
    for (int q = 0; q < BROADCAST; q++) {
        T t[S];
        sum[q].store(t);
        for (int e = 0; e < S; e++) G[q * side + e] += double(t[e]);
    }
}

template <class T>
void gram(const DenseRows<T>& rows, i64 lo, i64 hi, double* G, T* strips) {
    constexpr i64 S = STRIP<T>;
    const i64 d = rows.d, side = gram_side<T>(d), most = gram_rows<T>(d);
    T* scratch = strips + side * most;
    for (i64 e = (side - S) * most; e < side * most; e++) strips[e] = 0;  // the columns that are not there
    for (i64 first = lo; first < hi; first += most) {
        const i64 count = hi - first < most ? hi - first : most;
        for (i64 r = 0; r < count; r++) {
            const T* z = row_of(rows, first + r, scratch).z;
            const T a = T(rows.map.a(first + r));
            i64 c = 0;
            for (; c + S <= d; c += S) {
                Pack<T, int(S)> y;
                y.zero();
                y.add_scaled(a, z + c);
                y.store(strips + c * most + r * S);
            }
            T* rest = strips + c * most + r * S;
            for (i64 e = 0; c + e < d; e++) rest[e] = a * z[c + e];
            rest[d - c] = T(rows.map.scale(first + r));
        }
        for (i64 i = 0; i < side; i += BROADCAST)
            for (i64 c = i / S * S; c < side; c += S)
                gram_tile(strips + i / S * S * most + i % S, strips + c * most, count, G + i * side + c, side);
    }
}

template <class Rows>
void row_norms(const Rows& rows, double* norms, typename Rows::T* scratch) {
    using T = typename Rows::T;
    const double* m = lazy_shift(rows);
    double mm = m ? inner(m, m, rows.d) : 0;
    T unused;
    auto panel = make_panel(rows, &unused, 0);
    for (i64 i = 0; i < rows.n; i++) {
        auto x = row_of(rows, i, scratch);
        double a = rows.map.a(i), b = rows.map.b(i), s = panel.squared_norm(x);
        if (m) s += b * (b * mm - 2 * dot_shift(rows, x, m));
        norms[i] = a * a * (s > 0 ? s : 0);
    }
}

// ----------------------------------------------------------------------------------------------------- moments

// Four dense rows and their weights: those beyond `hi` have none.
template <class T>
struct FourRows {
    const T* x[4];
    double w[4];
    FourRows(const DenseRows<T>& rows, i64 i, i64 hi, const double* weight) {
        for (i64 r = 0; r < 4; r++) {
            x[r] = rows.X + (i + r < hi ? i + r : i) * rows.d;
            w[r] = i + r >= hi ? 0.0 : weight ? weight[i + r] : 1.0;
        }
    }
    double total() const { return (w[0] + w[1]) + (w[2] + w[3]); }
};

template <class T>
void moments(const DenseRows<T>& rows, i64 lo, i64 hi, const double* weight, double factor, double* mean, double* M2,
             double* total) {
    const i64 d = rows.d;
    i64 first = lo;  // the row that counts as zero: the first one that has a weight
    while (weight && first + 1 < hi && weight[first] == 0) first++;
    const T* shift = rows.X + first * d;
    double W = 0;
    for (i64 j = 0; j < d; j++) mean[j] = M2[j] = 0;
    for (i64 i = lo; i < hi; i += 4) {
        const FourRows<T> four(rows, i, hi, weight);
        const T *x0 = four.x[0], *x1 = four.x[1], *x2 = four.x[2], *x3 = four.x[3];
        const double w0 = four.w[0], w1 = four.w[1], w2 = four.w[2], w3 = four.w[3];
        W += four.total();
#pragma omp simd
        for (i64 j = 0; j < d; j++) {
            const double s = double(shift[j]);
            const double t0 = factor * (double(x0[j]) - s), t1 = factor * (double(x1[j]) - s);
            const double t2 = factor * (double(x2[j]) - s), t3 = factor * (double(x3[j]) - s);
            mean[j] += (w0 * t0 + w1 * t1) + (w2 * t2 + w3 * t3);
            M2[j] += (w0 * t0 * t0 + w1 * t1 * t1) + (w2 * t2 * t2 + w3 * t3 * t3);
        }
    }
    if (W > 0)
        for (i64 j = 0; j < d; j++) {
            double t = mean[j] / W;
            M2[j] = M2[j] - t * mean[j];
            mean[j] = factor * double(shift[j]) + t;
        }
    *total = W;
}

template <class T, class I>
void moments(const CsrRows<T, I>& rows, i64 lo, i64 hi, const double* weight, double factor, double* mean, double* M2,
             double* cells, double* total) {
    i64 d = rows.d;
    double W = 0;
    for (i64 s = 0; s < 4 * d; s++) cells[s] = 0;
    for (i64 j = 0; j < d; j++) mean[j] = M2[j] = 0;
    for (i64 i = lo; i < hi; i++) {
        SparseRow<T, I> x = row_of(rows, i, static_cast<T*>(nullptr));
        double w = weight ? weight[i] : 1.0;
        W += w;
        for (i64 k = 0; k < x.nnz; k++) {
            double v = factor * double(x.v[k]);
            double* c = cells + 4 * i64(x.j[k]);  // first value, weight, sum and sum of squares from there: half a line
            if (w == 0) {
                M2[x.j[k]] += 0 * v;  // nothing, unless it is not finite
                continue;
            }
            if (c[1] == 0) c[0] = v;
            double t = v - c[0];
            c[1] += w;
            c[2] += w * t;
            c[3] += w * t * t;
        }
    }
    for (i64 j = 0; j < d; j++) {  // the stored entries, then the zeros (Chan, Golub and LeVeque)
        const double *c = cells + 4 * j, mass = c[1];
        if (mass == 0) continue;
        double t = c[2] / mass, stored = c[0] + t;
        M2[j] += c[3] - t * c[2] + mass * (W - mass) / W * stored * stored;
        mean[j] = stored * (mass / W);
    }
    *total = W;
}

template <class T>
double squares(const DenseRows<T>& rows, i64 lo, i64 hi, const double* weight, double factor, double* sum) {
    double W = 0;
    for (i64 i = lo; i < hi; i += 4) {
        const FourRows<T> four(rows, i, hi, weight);
        const T *x0 = four.x[0], *x1 = four.x[1], *x2 = four.x[2], *x3 = four.x[3];
        const double w0 = four.w[0], w1 = four.w[1], w2 = four.w[2], w3 = four.w[3];
        W += four.total();
#pragma omp simd
        for (i64 j = 0; j < rows.d; j++) {
            const double v0 = factor * double(x0[j]), v1 = factor * double(x1[j]);
            const double v2 = factor * double(x2[j]), v3 = factor * double(x3[j]);
            sum[j] += (w0 * v0 * v0 + w1 * v1 * v1) + (w2 * v2 * v2 + w3 * v3 * v3);
        }
    }
    return W;
}

template <class T, class I>
double squares(const CsrRows<T, I>& rows, i64 lo, i64 hi, const double* weight, double factor, double* sum) {
    double W = 0;
    for (i64 i = lo; i < hi; i++) {
        const SparseRow<T, I> x = raw_row(rows, i);
        const double w = weight ? weight[i] : 1.0;
        W += w;
        for (i64 k = 0; k < x.nnz; k++) {
            const double v = factor * double(x.v[k]);
            sum[x.j[k]] += w * (v * v);
        }
    }
    return W;
}

// ------------------------------------------------------------------------------------------- stochastic epochs

template <class Rows>
void vr_vector(const Rows& rows, typename Rows::T* w, const typename Rows::T* w0, const typename Rows::T* u,
               const typename Rows::T* p, const typename Rows::T* V, const typename Rows::T* Q, i64 nV,
               const i64* order, i64 m, double eta, const double* rho, typename Rows::T* panel_buffer,
               typename Rows::T* scratch, double* f) {
    using T = typename Rows::T;
    const i64 d = rows.d;
    if (m == 0) return;
    const double* mu = lazy_shift(rows);
    auto panel = make_panel(rows, panel_buffer, mu ? 3 : 2);  // e | u | m
    panel.clear();
    for (i64 j = 0; j < d; j++) panel.at(j, 1) = u[j];
    if (mu)
        for (i64 j = 0; j < d; j++) panel.at(j, 2) = T(mu[j]);
    const double uu = inner(u, u, d), um = mu ? inner(u, mu, d) : 0, mm = mu ? inner(mu, mu, d) : 0;

    // w = alpha w0 + beta u + gamma m + V f + sigma e. Near the solution e is small, so its rounding is, too.
    double alpha, beta, gamma, sigma, uw, me;
    auto fold = [&] {  // w is current: start again from w = alpha w0 + e
        double norm = std::sqrt(inner(w, w, d));
        alpha = inner(w, w0, d) / norm;
        beta = gamma = 0;
        sigma = 1;
        for (i64 s = 0; s < nV; s++) f[s] = 0;
        for (i64 j = 0; j < d; j++) panel.at(j, 0) = T(double(w[j]) / norm - alpha * double(w0[j]));
        uw = inner(w, u, d) / norm;
        me = 0;
        if (mu)
            for (i64 j = 0; j < d; j++) me += mu[j] * double(panel.at(j, 0));
    };
    auto unfold = [&] {
        for (i64 j = 0; j < d; j++) {
            double t = alpha * double(w0[j]) + beta * double(u[j]) + sigma * double(panel.at(j, 0));
            if (mu) t += gamma * mu[j];
            for (i64 s = 0; s < nV; s++) t += f[s] * double(V[j * nV + s]);
            w[j] = T(t);
        }
    };
    fold();
    T h[4] = {};
    auto last = raw_row(rows, m ? order[0] : 0);
    for (i64 t = 0; t < m; t++) {
        prefetch_far(rows, order, t, m);
        const i64 i = order[t];
        auto next = raw_row(rows, order[t + NEXT < m ? t + NEXT : t]);
        auto x = row_of(rows, i, t % 2 ? scratch : scratch + row_size(rows), next);
        const double lift = rows.map.a(i) / sigma;  // early: the update waits for it
        T y[4];
        const double xx = panel.advance_one(last, h, x, next, y);
        const double a = rows.map.a(i), b = mu ? rows.map.b(i) : 0, xm = mu ? double(y[2]) : 0;
        const double zu = a * (double(y[1]) - b * um), zm = a * (xm - b * mm);
        double zz = a * a * (xx - 2 * b * xm + b * b * mm);
        // z.w - z.w0, the control variate
        double gap = (alpha - 1) * double(p[i]) + beta * zu + gamma * zm + sigma * a * (double(y[0]) - b * me);
        for (i64 s = 0; s < nV; s++) {
            double zv = Q[i * nV + s];
            gap += f[s] * zv;
            zz -= zv * zv;
        }
        const double zw = gap + double(p[i]), q = eta * (rho ? rho[i] : 1.0) * gap;
        const double shrink =
            1 / std::sqrt(1 + 2 * (q * zw + eta * uw) + q * q * zz + 2 * q * eta * zu + eta * eta * uu);
        h[0] = T(q * lift);  // e += h x is left to the next step's walk
        last = x;
        me += double(h[0]) * xm;
        uw = (uw + q * zu + eta * uu) * shrink;
        alpha *= shrink;
        beta = (beta + eta) * shrink;
        gamma = (gamma - q * a * b) * shrink;
        sigma *= shrink;
        for (i64 s = 0; s < nV; s++) f[s] = (f[s] - q * double(Q[i * nV + s])) * shrink;
        if (!(sigma > FOLD && sigma < 1 / FOLD)) {
            panel.update_one(last, h);
            h[0] = 0;
            unfold();
            fold();
        }
    }
    panel.update_one(last, h);
    unfold();
}

// The small matrices of the block kernels have their rows padded to whole registers; nobody reads what collects in
// the padding.
inline i64 quads(i64 l) { return (l + 3) / 4 * 4; }

template <class T>
inline Quad::V widen(const T* p) { return Quad::V{double(p[0]), double(p[1]), double(p[2]), double(p[3])}; }

// `count` rows of a matrix with l columns, in double and padded.
template <class T>
inline void widen_rows(const T* W, i64 count, i64 l, double* out) {
    for (i64 j = 0; j < count; j++)
        for (i64 c = 0; c < l; c++) out[j * quads(l) + c] = double(W[j * l + c]);
}

// out[c] += sum_s x[s] M[s * ld + c]
template <class X>
inline void row_times(const X* x, const double* M, i64 l, i64 ld, double* out) {
    for (i64 c = 0; c < ld; c += 4) {
        Quad::V sum = Quad::get(out + c);
        for (i64 s = 0; s < l; s++) sum += double(x[s]) * Quad::get(M + s * ld + c);
        Quad::put(out + c, sum);
    }
}

// M += x y^T
template <class X>
inline void add_outer(const X* x, const double* y, i64 l, i64 ld, double* M) {
    for (i64 c = 0; c < ld; c += 4) {
        const Quad::V yc = Quad::get(y + c);
        for (i64 s = 0; s < l; s++) Quad::put(M + s * ld + c, Quad::get(M + s * ld + c) + double(x[s]) * yc);
    }
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

// The small matrices of vr_block, W = W0 A + U S + m c^T + E with K = W0^T W and M = A - K, and its vectors. Only where
// they are: passed by value, so that what is written to them cannot change it.
template <class T>
struct BlockState {
    i64 l, ld;
    double *A, *K, *M, *S, *c, *mE, *mU, *zU, *y, *wide;
    T *x, *h;  // projections of a row, and the step that E has not taken yet: 2 l + 1, padded

    BlockState(double* small, i64 l_) : l(l_), ld(quads(l_)) {
        for (i64 s = 0; s < small_size(l); s++) small[s] = 0;
        A = small, K = A + l * ld, M = K + l * ld, S = M + l * ld;
        c = S + l * ld, mE = c + ld, mU = mE + ld, zU = mU + ld, y = zU + ld, wide = y + ld;
        x = reinterpret_cast<T*>(wide + SMALL_ROWS * ld), h = x + (2 * l + 16);
        for (i64 s = 0; s < 2 * (2 * l + 16); s++) x[s] = 0;
    }
};

// A = K = W0^T W, and E = W - W0 A into the panel. Some rows at a time, so that they have reached the cache before wider
// loads ask for them.
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
        b.M[s] = -b.A[s];  // for now
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

// W = W0 A + U S + m c^T + E.
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

// One step with row i, whose products with the panel's columns are in b.x; leaves h for E += x h^T.
template <class T>
inline void block_step(const RowMap<T>& map, const double* mu, double mm, i64 i, const T* p, const double* theta,
                       double eta, double rho, const BlockState<T> b) {
    const i64 l = b.l, ld = b.ld;
    const double a = map.a(i), shift = mu ? map.b(i) : 0, xm = mu ? double(b.x[2 * l]) : 0;
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
        panel.advance(last, state.h, x, next, l, state.x);  // the last step's E += x h^T, on the same walk
        last = x;
        block_step(rows.map, mu, mm, i, P + i * ldP, theta, eta, rho ? rho[i] : 1.0, state);
    }
    panel.update(last, state.h, l);
    unfold_block(panel, mu, W0, rows.d, state, W);
}

// z = a (x - b m) written out in full.
template <class T, class I>
inline void write_row(const CsrRows<T, I>& rows, i64 i, T* z) {
    const double a = rows.map.a(i), ab = a * rows.map.b(i);
    const double* m = rows.map.shift;
    for (i64 j = 0; j < rows.d; j++) z[j] = m ? T(-ab * m[j]) : T(0);
    SparseRow<T, I> x = row_of(rows, i, z);
    for (i64 k = 0; k < x.nnz; k++) {
        double v = rows.map.col_scale ? double(x.v[k]) * double(rows.map.col_scale[x.j[k]]) : double(x.v[k]);
        z[x.j[k]] += T(a * v);
    }
}
template <class T>
inline void write_row(const DenseRows<T>& rows, i64 i, T* z) {
    const T a = T(rows.map.a(i));
    const T* x = row_of(rows, i, z).z;
    for (i64 j = 0; j < rows.d; j++) z[j] = a * x[j];
}

// Modified Gram-Schmidt on the rows of Wt (l x d).
template <class T>
inline void gram_schmidt(T* Wt, i64 l, i64 d) {
    for (i64 c = 0; c < l; c++) {
        T* w = Wt + c * d;
        for (i64 s = 0; s < c; s++) axpy(T(-dot(Wt + s * d, w, d)), Wt + s * d, w, d);
        T scale = T(1 / std::sqrt(double(dot(w, w, d))));
        for (i64 j = 0; j < d; j++) w[j] *= scale;
    }
}

template <class Rows>
void vr_gram_schmidt(const Rows& rows, typename Rows::T* Wt, const typename Rows::T* Ut, const typename Rows::T* P,
                     i64 ldP, i64 l, const i64* order, i64 m, double eta, const double* rho, typename Rows::T* z) {
    using T = typename Rows::T;
    const i64 d = rows.d;
    for (i64 t = 0; t < m; t++) {
        const i64 i = order[t];
        write_row(rows, i, z);
        for (i64 c = 0; c < l; c++) {
            T* w = Wt + c * d;
            double gap = double(dot(z, w, d)) - double(P[i * ldP + c]);
            axpy(T(eta * (rho ? rho[i] : 1.0) * gap), z, w, d);
            axpy(T(eta), Ut + c * d, w, d);
        }
        gram_schmidt(Wt, l, d);
    }
}

template <class Rows>
void oja_block(const Rows& rows, typename Rows::T* W, i64 l, const i64* order, i64 m, const double* eta,
               const double* rho, typename Rows::T* panel_buffer, typename Rows::T* scratch, double* small) {
    using T = typename Rows::T;
    const i64 d = rows.d;
    const double* mu = lazy_shift(rows);
    auto panel = make_panel(rows, panel_buffer, l + (mu ? 1 : 0));  // G | m, with W = G + m c^T
    panel.clear();
    double *c_ = small, *mG = c_ + l;
    T* x_ = reinterpret_cast<T*>(mG + l);
    T* h = x_ + (l + 16);
    for (i64 c = 0; c < l + 16; c++) h[c] = 0;
    for (i64 c = 0; c < l; c++) {
        c_[c] = 0;
        mG[c] = mu ? inner(W + c, mu, d, l, 1) : 0;
    }
    const double mm = mu ? inner(mu, mu, d) : 0;
    for (i64 j = 0; j < d; j++) {
        for (i64 c = 0; c < l; c++) panel.at(j, c) = W[j * l + c];
        if (mu) panel.at(j, l) = T(mu[j]);
    }
    for (i64 t = 0; t < m; t++) {
        if (t + ahead(rows) < m) prefetch_row(rows, order[t + ahead(rows)]);
        const i64 i = order[t];
        auto x = row_of(rows, i, scratch);
        panel.project(x, x_);
        const double a = rows.map.a(i), b = mu ? rows.map.b(i) : 0, xm = mu ? double(x_[l]) : 0;
        const double step = eta[t] * (rho ? rho[i] : 1.0) * a;
        for (i64 c = 0; c < l; c++) {
            double y = a * (double(x_[c]) + xm * c_[c] - b * (mG[c] + mm * c_[c]));
            h[c] = T(step * y);
            mG[c] += double(h[c]) * xm;
            c_[c] -= step * b * y;
        }
        panel.update(x, h, l);
    }
    for (i64 j = 0; j < d; j++)
        for (i64 c = 0; c < l; c++) W[j * l + c] = mu ? T(double(panel.at(j, c)) + mu[j] * c_[c]) : panel.at(j, c);
}

// ---------------------------------------------------------------------------------------------- instantiations

#define VRPCA_FOR_ROWS(Rows)                                                                                        \
    template struct Size<Rows>;                                                                                     \
    template void row_norms(const Rows&, double*, Rows::T*);                                                        \
    template void vr_vector(const Rows&, Rows::T*, const Rows::T*, const Rows::T*, const Rows::T*, const Rows::T*,  \
                            const Rows::T*, i64, const i64*, i64, double, const double*, Rows::T*, Rows::T*,        \
                            double*);                                                                               \
    template void load_panel(const Rows&, const Rows::T*, i64, Rows::T*);                                           \
    template void vr_block(const Rows&, Rows::T*, const Rows::T*, Rows::T*, const Rows::T*, i64, const double*,     \
                           i64, const i64*, i64, double, const double*, Rows::T*, double*);                         \
    template void vr_gram_schmidt(const Rows&, Rows::T*, const Rows::T*, const Rows::T*, i64, i64, const i64*, i64, \
                                  double, const double*, Rows::T*);                                                 \
    template void oja_block(const Rows&, Rows::T*, i64, const i64*, i64, const double*, const double*, Rows::T*,    \
                            Rows::T*, double*);
#define VRPCA_FOR_DENSE(T_)                                                                                          \
    VRPCA_FOR_ROWS(DenseRows<T_>)                                                                                    \
    template void add_partials(const T_*, i64, i64, i64, i64, i64, i64, const double*, const double*, T_*);          \
    template void wide_product(const DenseRows<T_>&, i64, i64, const T_*, i64, T_*, double*, T_*, T_*);              \
    template void product(const DenseRows<T_>&, i64, i64, const T_*, i64, double*, T_*, T_*);                        \
    template i64 gram_side<T_>(i64);                                                                                 \
    template i64 gram_room<T_>(i64);                                                                                 \
    template void gram(const DenseRows<T_>&, i64, i64, double*, T_*);                                                \
    template void moments(const DenseRows<T_>&, i64, i64, const double*, double, double*, double*, double*);         \
    template double squares(const DenseRows<T_>&, i64, i64, const double*, double, double*);
#define VRPCA_COMMA ,
#define VRPCA_FOR_CSR(T_, I_)                                                                                        \
    VRPCA_FOR_ROWS(CsrRows<T_ VRPCA_COMMA I_>)                                                                       \
    template void product(const CsrRows<T_, I_>&, i64, i64, const T_*, const double*, i64, i64, T_*, T_*, double*);  \
    template void moments(const CsrRows<T_, I_>&, i64, i64, const double*, double, double*, double*, double*, double*); \
    template double squares(const CsrRows<T_, I_>&, i64, i64, const double*, double, double*);

VRPCA_FOR_DENSE(float)
VRPCA_FOR_DENSE(double)
VRPCA_FOR_CSR(float, std::int32_t)
VRPCA_FOR_CSR(float, std::int64_t)
VRPCA_FOR_CSR(double, std::int32_t)
VRPCA_FOR_CSR(double, std::int64_t)

}  // namespace VRPCA_ISA
}  // namespace vrpca
