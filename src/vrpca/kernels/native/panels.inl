// The panels of the epochs, one type for sparse rows and one for dense rows. Both have the same functions: `project`
// multiplies a row with all columns, `update` adds it to some of them, and `advance` does both. So every epoch is
// written once.
#pragma once
#include "chunks.inl"

namespace vrpca {
namespace VRPCA_ISA {

// A panel for sparse rows. It is row-major with rows ld apart. So an entry of a sparse row touches few cache lines of
// the panel.
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
    // out[c] = x . column c for all columns. `out` has room for ld numbers.
    void project(const SparseRow<T, I>& x, T* out) const {
        const T* s = rows.map.col_scale;
        if (s) for_chunks(ld, Project<true>{x, s, data, ld, out});
        else for_chunks(ld, Project<false>{x, s, data, ld, out});
    }
    // column c += h[c] x for c < columns. `h` has ld numbers and is zero from `columns` on. The chunks have the same
    // width as those of `project`, so that zero is added to some further columns. A load of the same width gets the
    // value from a recent store directly. A wider load would have to wait until the store has reached the cache.
    void update(const SparseRow<T, I>& x, const T* h, i64 columns) {
        const T* s = rows.map.col_scale;
        i64 width = ld <= 4 ? ld : (columns + 7) / 8 * 8;
        if (s) for_chunks(width, Update<true>{x, s, data, ld, h});
        else for_chunks(width, Update<false>{x, s, data, ld, h});
    }
    // column c += h[c] last for c < l; then out[c] = x . column c for all columns.
    void advance(const SparseRow<T, I>& last, const T* h, const SparseRow<T, I>& x, const SparseRow<T, I>&, i64 l,
                 T* out) {
        update(last, h, l);
        project(x, out);
    }
    // `update` and `advance` for l = 1 and panels of 2 or 3 columns. `h` and `out` have room for 4 numbers.
    // advance_one returns |x|^2.
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
};

// out[c] = x . (column c of p). Columns have d entries and are ld apart.
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

// A panel for dense rows. It is column-major. So any number of columns fills whole registers.
template <class T>
struct DensePanel {
    const DenseRows<T>& rows;
    T* data;
    i64 q;
    bool turn = false;  // whether the next step takes the groups of columns in reverse

    DensePanel(const DenseRows<T>& r, T* buffer, i64 columns) : rows(r), data(buffer), q(columns) {}
    void clear() {
        for (i64 s = 0; s < rows.d * q; s++) data[s] = 0;
    }
    T& at(i64 j, i64 c) { return data[c * rows.d + j]; }
    // out[c] = x . column c for all columns.
    void project(const DenseRow<T>& x, T* out) const { project_columns(x.z, data, rows.d, q, rows.d, out); }
    // column c += h[c] x for c < columns.
    void update(const DenseRow<T>& x, const T* h, i64 columns) {
        for (i64 c = 0; c < columns; c++) axpy(h[c], x.z, data + c * rows.d, rows.d);
    }
    // column c += h[c] last for c < l; then out[c] = x . column c for the first 2 l columns. Returns |x|^2. Groups of
    // up to three columns are taken at a time: 7 sums, 3 numbers of h, 2 rows and one entry of the panel take 13 of
    // AVX2's 16 registers. A step begins with the group that the step before ended with, because that group is still
    // in the cache. The first group also prefetches the row `next`. If rows are mapped, map_row has prefetched the
    // first half of it.
    T advance(const DenseRow<T>& last, const T* h, const DenseRow<T>& x, const DenseRow<T>& next, i64 l, T* out) {
        const bool half = mapped(rows);
        const T* ask = half ? next.z + rows.d / 2 : next.z;
        const i64 groups = (l + 2) / 3;
        T xx = 0;
        for (i64 k = 0; k < groups; k++) {
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
    // `advance` for one group: C columns from c0 on, and C columns from c0 + l on, in one walk over all of them.
    template <int C>
    T advance_group(const T* last, const T* h_, const T* x, const T* next, bool half, i64 c0, i64 l, T* out) {
        using L = Lanes<T, REGISTER>;
        using V = typename L::V;
        constexpr int lane = int(LANE<T>), unroll = C == 1 ? 2 : 1;
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
};

template <class T, class I>
inline SparsePanel<T, I> make_panel(const CsrRows<T, I>& rows, T* buffer, i64 q) { return {rows, buffer, q}; }
template <class T>
inline DensePanel<T> make_panel(const DenseRows<T>& rows, T* buffer, i64 q) { return {rows, buffer, q}; }

}  // namespace VRPCA_ISA
}  // namespace vrpca
