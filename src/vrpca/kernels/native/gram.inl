// The arithmetic of gram.hpp. Some rows at a time are copied into strips of a few columns each. Then all pairs of
// strips are multiplied while all strips are in the cache.
#pragma once
#include "gram.hpp"
#include "rows.inl"

namespace vrpca {
namespace VRPCA_ISA {

// The registers of a strip, and its columns. Strips of 64 bytes are narrow enough to waste little of the last one.
constexpr int STRIP_REGISTERS = REGISTER >= 64 ? 1 : 2;
template <class T>
constexpr i64 STRIP = STRIP_REGISTERS * LANE<T>;

// Columns that are multiplied with a strip at once. Each has a register of sums, or two. With two registers of a strip
// and one factor, 15 of 16 or 27 of 32 are in use. Where a strip is one register, as many columns make square blocks.
template <class T>
constexpr i64 BROADCAST = STRIP_REGISTERS == 1 ? LANE<T> : REGISTERS >= 32 ? 12 : 6;

// The same for half a strip of two registers. gcc keeps no more than 16 sums in registers.
constexpr i64 HALF_BROADCAST = REGISTERS >= 32 ? 16 : 12;

// The bytes of all strips together. They determine how many rows are copied at a time. The strips should stay in the
// cache while they are multiplied. More rows make the additions to G in double rarer.
constexpr i64 GRAM_BYTES = 1 << 17;

// The columns of Z and r, padded to whole strips.
template <class T>
i64 gram_side(i64 d) { return (d + 1 + STRIP<T> - 1) / STRIP<T> * STRIP<T>; }

// Rows that are copied at a time. At least 16, so that the additions to G do not take most of the time on wide data.
// At most 128, so that rounding of the sums in T stays small.
template <class T>
i64 gram_rows(i64 d) {
    const i64 rows = GRAM_BYTES / (gram_side<T>(d) * i64(sizeof(T)));
    return rows < 16 ? 16 : rows > 128 ? 128 : rows;
}

template <class T>
i64 gram_room(i64 d) { return gram_side<T>(d) * gram_rows<T>(d) + d; }

// Products of `columns` columns with the first registers of a strip, summed over `count` rows in T, then added to G in
// double. left[q] is column q; there are `most` of them, though not all may count.
template <class T, int registers, int most>
inline void gram_tile(const T* const* left, i64 columns, const T* right, i64 count, double* G, i64 side) {
    constexpr int S = int(STRIP<T>), N = registers * int(LANE<T>);
    Pack<T, N> sum[most];
    for (int q = 0; q < most; q++) sum[q].zero();
    for (i64 r = 0; r < count; r++) {
        Pack<T, N> y;
        y.load(right + r * S);
        for (int q = 0; q < most; q++) sum[q].add_product(left[q][r * S], y);
    }
    for (i64 q = 0; q < columns; q++) {
        T t[N];
        sum[q].store(t);
        double* g = G + q * side;
#pragma omp simd
        for (int e = 0; e < N; e++) g[e] += double(t[e]);
    }
}

// Products of the columns before `end`, `most` at a time, with the strips that begin at the columns from `start` to
// before `stop`; strips before a column's own are left out. Strips have room for `rows` rows, of which `count` are there.
template <class T, int registers, int most>
void gram_tiles(const T* strips, i64 rows, i64 count, i64 start, i64 stop, i64 end, i64 side, double* G) {
    constexpr i64 S = STRIP<T>;
    for (i64 i = 0; i < end; i += most) {
        const T* left[most];
        for (i64 q = 0; q < most; q++) {
            const i64 column = i + q < side ? i + q : side - 1;
            left[q] = strips + column / S * S * rows + column % S;
        }
        const i64 columns = side - i < most ? side - i : most, own = i / S * S;
        for (i64 c = own < start ? start : own; c < stop; c += S)
            gram_tile<T, registers, most>(left, columns, strips + c * rows, count, G + i * side + c, side);
    }
}

// Copy row i into row r of the strips. `scratch` has room for a row.
template <class T>
inline void copy_row(const DenseRows<T>& rows, i64 i, T* strips, i64 most, i64 r, T* scratch) {
    constexpr i64 S = STRIP<T>;
    const T* z = row_of(rows, i, scratch).z;
    const T a = T(row_factor(rows.map, i));
    i64 c = 0;
    for (; c + S <= rows.d; c += S) {
        Pack<T, int(S)> y;
        y.zero();
        y.add_scaled(a, z + c);
        y.store(strips + c * most + r * S);
    }
    for (i64 e = 0; c + e < rows.d; e++) strips[c * most + r * S + e] = a * z[c + e];
}

// The same in double, where the data are float.
inline void copy_row(const DenseRows<float>& rows, i64 i, double* strips, i64 most, i64 r, double*) {
    constexpr i64 S = STRIP<double>;
    const double a = row_factor(rows.map, i);
    i64 c = 0;
    for (; c + S <= rows.d; c += S) widen(rows, i, a, c, S, strips + c * most + r * S);
    widen(rows, i, a, c, rows.d - c, strips + c * most + r * S);
}

template <class T, class A>
void gram(const DenseRows<T>& rows, i64 lo, i64 hi, double* G, A* strips) {
    constexpr i64 S = STRIP<A>;
    const i64 d = rows.d, side = gram_side<A>(d), most = gram_rows<A>(d);
    // Whether the last strip has columns in the first of two registers only.
    const bool half = STRIP_REGISTERS == 2 && d + 1 - (side - S) <= LANE<A>;
    const i64 size = d * i64(sizeof(T));
    A* scratch = strips + side * most;
    for (i64 e = (side - S) * most; e < side * most; e++) strips[e] = 0;  // the padding is in the last strip
    for (i64 first = lo; first < hi; first += most) {
        const i64 count = hi - first < most ? hi - first : most;
        for (i64 r = 0; r < count; r++) {
            prefetch_second(rows.X + (first + r) * d, most * size, size);
            copy_row(rows, first + r, strips, most, r, scratch);
            strips[d / S * S * most + r * S + d % S] = A(row_scale(rows.map, first + r));
        }
        constexpr int broadcast = int(BROADCAST<A>);
        gram_tiles<A, STRIP_REGISTERS, broadcast>(strips, most, count, 0, half ? side - S : side, d + 1, side, G);
        if (half) gram_tiles<A, 1, int(HALF_BROADCAST)>(strips, most, count, side - S, side, d + 1, side, G);
    }
}

#define VRPCA_INSTANTIATE(Rows)                                      \
    template void gram(const Rows&, i64, i64, double*, Rows::T*);    \
    template i64 gram_side<Rows::T>(i64);                            \
    template i64 gram_room<Rows::T>(i64);
VRPCA_EACH_DENSE(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE
template void gram(const DenseRowsF32&, i64, i64, double*, double*);

}  // namespace VRPCA_ISA
}  // namespace vrpca
