// The arithmetic of products.hpp for dense rows: y = Z W and U += Z^T y, a few rows and a few columns at a time.
//
// A tile of rows is multiplied with all columns, and then added to U, while it is in the cache. Both walk along the
// rows, with a group of columns at a time. So registers are full whatever the number of columns is, and R rows
// with C columns take R + C loads for R x C products.
#pragma once
#include "column_sums.inl"
#include "products.hpp"
#include "rows.inl"

namespace vrpca {
namespace VRPCA_ISA {

// Both loops use almost all registers: one for each product of a row and a column, one for each column, and one for a
// row.
constexpr int TILE_ROWS = REGISTERS >= 32 ? 6 : 4;
constexpr int TILE_COLUMNS = REGISTERS >= 32 ? 4 : 3;

// Bytes of a row that are taken at a time. They are used for all columns while they are in the first-level cache. A sum
// over them is added to the sum over the row, which keeps rounding from growing with the length of a row.
constexpr i64 SPAN = 4096;

// Rows that are summed in T before the sums are added to those in double. A larger number costs less time for adding. A
// smaller number keeps rounding smaller.
constexpr i64 SUMMED = 128;

// The next multiple of a cache line.
template <class T>
inline i64 whole_lines(i64 count) {
    constexpr i64 line = 64 / i64(sizeof(T));
    return (count + line - 1) / line * line;
}

// A processor compares the address of a load with those of recent stores by their last 12 bits at first. If these bits
// are equal, the load has to wait, though it is from another address. U must not lie so that this happens all the time:
// products of rows of 2048 floats took twice as long. Lengths are in cache lines here. 4 kB, which 12 bits address, have
// 64 of them.
constexpr i64 PAGE = 64;
constexpr i64 SOON = 8;         // lines that may be loaded before a store has reached the cache
constexpr i64 PLACE_OF_U = 24;  // after X, modulo 4 kB. Rows that are 1, 2 or 4 kB long, modulo 4 kB, are far from it too

// Whether stores into a column of U are soon followed by such loads from another column of the same group.
inline bool collide(i64 column_lines) {
    for (i64 c = 1; c < TILE_COLUMNS; c++) {
        const i64 apart = c * column_lines, rest = apart % PAGE;
        if (apart > PAGE - SOON && rest && (rest < SOON || rest > PAGE - SOON)) return true;
    }
    return false;
}

// The distance between columns.
template <class T>
i64 column_length(i64 d) {
    constexpr i64 line = 64 / i64(sizeof(T));
    i64 lines = whole_lines<T>(d) / line;
    while (collide(lines)) lines++;
    return lines * line;
}

// The first place in `room` that is good for U.
template <class T>
inline T* place_of_u(T* room, const void* X) {
    const auto line_of = [](const void* p) { return i64(reinterpret_cast<std::uintptr_t>(p) / 64 % PAGE); };
    const i64 lines = (line_of(X) + PLACE_OF_U - line_of(room) + PAGE) % PAGE;
    return room + lines * 64 / i64(sizeof(T));
}

// Room for U in T, which may begin up to 4 kB later, for y, and for the rows of a tile: their ends, and the whole rows
// where they are mapped.
template <class T>
i64 product_room(i64 d, i64 l) {
    return 64 * PAGE / i64(sizeof(T)) + whole_lines<T>(l * column_length<T>(d)) + whole_lines<T>(TILE_ROWS * l) +
           whole_lines<T>(TILE_ROWS * (LANE<T> + d));
}

// Some entries of the rows of a tile: those in whole registers, and the ends of the rows, which do not fill one.
template <class T>
struct Part {
    const T* x[TILE_ROWS];
    i64 at, whole;  // the first entry, and the number of those in whole registers
    const T* ends;  // TILE_ROWS registers, padded with zeros; or null, if this part has no ends
};

// y[r * C + c] += x_r . w_c for all rows of a tile and C columns.
template <int C, class T>
inline void project(const Part<T>& part, const T* W, i64 ld, Ahead& ahead, T* y) {
    using L = Lanes<T, REGISTER>;
    using V = typename L::V;
    Ahead next = ahead;
    V sum[TILE_ROWS][C];
    for (int r = 0; r < TILE_ROWS; r++)
        for (int c = 0; c < C; c++) sum[r][c] = V{};
    for (i64 j = 0; j < part.whole; j += LANE<T>) {
        next.ask();
        V w[C];
        for (int c = 0; c < C; c++) w[c] = L::get(W + c * ld + j);
        for (int r = 0; r < TILE_ROWS; r++) {
            V x = L::get(part.x[r] + j);
            keep(x);
            for (int c = 0; c < C; c++) sum[r][c] += x * w[c];
        }
    }
    for (int r = 0; part.ends && r < TILE_ROWS; r++)
        for (int c = 0; c < C; c++) sum[r][c] += L::get(part.ends + r * LANE<T>) * L::get(W + c * ld + part.whole);
    add_totals<TILE_ROWS * C>(&sum[0][0], y);
    ahead = next;
}

// u_c += y[r * C + c] x_r for all rows of a tile and C columns.
template <int C, class T>
inline void update(const Part<T>& part, const T* y, i64 ld, Ahead& ahead, T* U) {
    using L = Lanes<T, REGISTER>;
    using V = typename L::V;
    Ahead next = ahead;
    V h[TILE_ROWS][C];
    for (int r = 0; r < TILE_ROWS; r++)
        for (int c = 0; c < C; c++) h[r][c] = V{} + y[r * C + c];
    for (i64 j = 0; j < part.whole; j += LANE<T>) {
        next.ask();
        V u[C];
        for (int c = 0; c < C; c++) u[c] = L::get(U + c * ld + j);
        for (int r = 0; r < TILE_ROWS; r++) {
            V x = L::get(part.x[r] + j);
            keep(x);
            for (int c = 0; c < C; c++) u[c] += h[r][c] * x;
        }
        for (int c = 0; c < C; c++) L::put(U + c * ld + j, u[c]);
    }
    for (int c = 0; part.ends && c < C; c++) {
        V u = L::get(U + c * ld + part.whole);
        for (int r = 0; r < TILE_ROWS; r++) u += h[r][c] * L::get(part.ends + r * LANE<T>);
        L::put(U + c * ld + part.whole, u);
    }
    ahead = next;
}

// Calls f.run<C>(c) for one group of columns after the other: C columns from c on. Groups differ by one column at most.
template <class F>
inline void for_groups(i64 l, F&& f) {
    const i64 groups = (l + TILE_COLUMNS - 1) / TILE_COLUMNS;
    for (i64 g = 0; g < groups; g++) {
        const i64 c = l * g / groups, width = l * (g + 1) / groups - c;
        if (width == 1) f.template run<1>(c);
        else if (width == 2) f.template run<2>(c);
        else if (width == 3) f.template run<3>(c);
        else f.template run<TILE_COLUMNS>(c);
    }
}

// The three steps for a group of columns. Each group has its own place in y, with TILE_ROWS numbers per column.
template <class T>
struct Project {
    const Part<T>& part;
    const T* W;
    i64 ld;
    Ahead& ahead;
    T* y;
    template <int C>
    void run(i64 c) { project<C>(part, W + c * ld + part.at, ld, ahead, y + TILE_ROWS * c); }
};
template <class T>
struct Update {
    const Part<T>& part;
    const T* y;
    i64 ld;
    Ahead& ahead;
    T* U;
    template <int C>
    void run(i64 c) { update<C>(part, y + TILE_ROWS * c, ld, ahead, U + c * ld + part.at); }
};
// On entry, y is X W. On return it is a times Z W, and U += X^T y is left to do.
template <class T, class A>
struct Between {
    const DenseRows<T>& rows;
    i64 i, count, l;
    const double* mW;
    double* tail;
    A *P, *y;
    template <int C>
    void run(i64 c) {
        for (i64 r = 0; r < TILE_ROWS; r++) {
            const double a = r < count ? row_factor(rows.map, i + r) : 0;
            if (!mW && !P) {
                A* of_row = y + TILE_ROWS * c + r * C;
#pragma omp simd
                for (int s = 0; s < C; s++) of_row[s] = A(a * (a * double(of_row[s])));
                continue;
            }
            const double b = mW && r < count ? row_shift(rows.map, i + r) : 0;
            for (i64 s = c; s < c + C; s++) {
                A& place = y[TILE_ROWS * c + r * C + s - c];
                double yc = a * double(place);
                if (mW) yc -= a * b * mW[s];
                if (P && r < count) P[(i + r) * l + s] = A(yc);
                place = A(a * yc);
                if (mW) tail[s] += b * double(place);  // of the rounded number, so that what U gets along m cancels
            }
        }
    }
};

// x * s - b m of row i, or x itself where the caller applies the map to products. `scratch` has room for a row.
template <class T>
inline const T* tile_row(const DenseRows<T>& rows, i64 i, T* scratch) {
    return rows.map.late ? raw_row(rows, i).z : row_of(rows, i, scratch).z;
}
inline const double* tile_row(const DenseRows<float>& rows, i64 i, double* scratch) {
    widen(rows, i, scratch);
    return scratch;
}

// The rows i..i+count of a tile. A tile of fewer rows repeats its last one, with a factor of zero. The ends of the rows
// are copied to `ends`.
template <class T, class A>
inline void read_tile(const DenseRows<T>& rows, i64 i, i64 count, A* mapped_rows, const A** row, A* ends) {
    const i64 d = rows.d, whole = d / LANE<A> * LANE<A>;
    for (i64 r = 0; r < TILE_ROWS; r++) {
        row[r] = r < count ? tile_row(rows, i + r, mapped_rows + r * d) : row[r - 1];
        for (i64 e = 0; whole < d && e < LANE<A>; e++) ends[r * LANE<A> + e] = whole + e < d ? row[r][whole + e] : A(0);
    }
}

// Calls f(part) for one part of the rows after the other.
template <class T, class F>
inline void for_parts(const T* const* row, i64 d, const T* ends, F&& f) {
    constexpr i64 span = SPAN / i64(sizeof(T));
    for (i64 at = 0; at < d; at += span) {
        Part<T> part;
        const bool last = d - at <= span;
        for (int r = 0; r < TILE_ROWS; r++) part.x[r] = row[r] + at;
        part.at = at;
        part.whole = last ? (d - at) / LANE<T> * LANE<T> : span;
        part.ends = last && d % LANE<T> ? ends : nullptr;
        f(part);
    }
}

// sums += U, and U = 0.
template <class T>
inline void add_up(T* U, i64 size, double* sums) {
#pragma omp simd
    for (i64 e = 0; e < size; e++) {
        sums[e] += double(U[e]);
        U[e] = 0;
    }
}

template <class T, class A>
void product(const DenseRows<T>& rows, i64 lo, i64 hi, const A* W, const double* mW, i64 l, double* sums, A* P,
             double* tail, A* room, ColumnSums<T>* columns) {
    const i64 d = rows.d, ld = column_length<A>(d), groups = (l + TILE_COLUMNS - 1) / TILE_COLUMNS;
    const i64 steps = 2 * groups * ld / LANE<A>, bytes = TILE_ROWS * d * i64(sizeof(T));
    const i64 per_step = steps ? (bytes + steps - 1) / steps : 0;
    A *U = place_of_u(room, rows.X), *y = U + whole_lines<A>(l * ld), *ends = y + whole_lines<A>(TILE_ROWS * l);
    A* mapped_rows = ends + TILE_ROWS * LANE<A>;
    for (i64 e = 0; e < l * ld; e++) U[e] = 0;
    ColumnSums<T> own{};  // other threads write next to *columns
    if (columns) own = *columns;
    for (i64 i = lo; i < hi; i += TILE_ROWS) {
        const i64 count = hi - i < TILE_ROWS ? hi - i : TILE_ROWS;
        const A* row[TILE_ROWS];
        read_tile(rows, i, count, mapped_rows, row, ends);
        Ahead ahead{rows.X + i * d, bytes, per_step};
        for (i64 e = 0; e < TILE_ROWS * l; e++) y[e] = 0;
        for_parts(row, d, ends, [&](const Part<A>& part) { for_groups(l, Project<A>{part, W, ld, ahead, y}); });
        for_groups(l, Between<T, A>{rows, i, count, l, mW, tail, P, y});
        for_parts(row, d, ends, [&](const Part<A>& part) { for_groups(l, Update<A>{part, y, ld, ahead, U}); });
        if (columns) add_rows<TILE_ROWS>(rows, i, hi, own, false);
        if ((i - lo) % SUMMED >= SUMMED - TILE_ROWS || i + TILE_ROWS >= hi) add_up(U, l * ld, sums);
    }
    if (columns) *columns = own;
}

#define VRPCA_INSTANTIATE(Rows)                                                                                  \
    template void product(const Rows&, i64, i64, const Rows::T*, const double*, i64, double*, Rows::T*, double*, \
                          Rows::T*, ColumnSums<Rows::T>*);                                                       \
    template i64 column_length<Rows::T>(i64);                                                                    \
    template i64 product_room<Rows::T>(i64, i64);
VRPCA_EACH_DENSE(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE
template void product(const DenseRowsF32&, i64, i64, const double*, const double*, i64, double*, double*, double*,
                      double*, ColumnSums<float>*);

}  // namespace VRPCA_ISA
}  // namespace vrpca
