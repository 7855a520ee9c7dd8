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

// The same for half a strip. gcc keeps no more than 16 sums in registers.
template <class T>
constexpr i64 HALF_BROADCAST = STRIP_REGISTERS == 1 ? LANE<T> : REGISTERS >= 32 ? 16 : 12;

// Rows that are copied at a time. Fewer of them would make the additions to G in double more frequent. With more, sums
// in T would be rounded more, and strips of some hundred columns would not stay in the second-level cache.
constexpr i64 GRAM_ROWS = 128;

// The columns of Z, padded to whole strips.
template <class T>
i64 gram_side(i64 d) { return (d + STRIP<T> - 1) / STRIP<T> * STRIP<T>; }

template <class T>
i64 gram_room(i64 d) { return gram_side<T>(d) * GRAM_ROWS; }

// ---------------------------------------------------------------------------------------- rows become strips

// What the kernel has for each column, in double: the sums of all rows, those of the last GRAM_ROWS rows, and the shift
// and the column scale of the map. All are padded. One long chain of additions would be rounded more.
struct GramColumns {
    double *all_first, *all_squares, *first, *squares, *shift, *scale;
    i64 side;
    template <class T>
    GramColumns(double* room, i64 side_, i64 d, const RowMap<T>& map)
        : all_first(room), all_squares(room + side_), first(room + 2 * side_), squares(room + 3 * side_),
          shift(room + 4 * side_), scale(room + 5 * side_), side(side_) {
        for (i64 j = 0; j < 4 * side; j++) room[j] = 0;
        for (i64 j = 0; j < side; j++) {
            shift[j] = map.shift && j < d ? map.shift[j] : 0;
            scale[j] = map.col_scale && j < d ? double(map.col_scale[j]) : 1;
        }
    }
    void add_up() const {
        for (i64 j = 0; j < side; j++) {
            all_first[j] += first[j];
            all_squares[j] += squares[j];
            first[j] = squares[j] = 0;
        }
    }
};

// N numbers in double. They are mapped in double, because a large mean must cancel before the result is rounded.
template <int N>
struct Doubles {
    using L = Lanes<double, REGISTER >= 64 && N >= 8 ? 64 : 32>;
    static constexpr int lane = int(sizeof(typename L::V) / sizeof(double)), count = N / lane;
    typename L::V v[count];
    void load(const double* p) {
        for (int c = 0; c < count; c++) v[c] = L::get(p + c * lane);
    }
    void store(double* p) const {
        for (int c = 0; c < count; c++) L::put(p + c * lane, v[c]);
    }
    template <class T>
    void widen(const T* p) {
        using Own = Lanes<T, lane * int(sizeof(T))>;
        for (int c = 0; c < count; c++) v[c] = __builtin_convertvector(Own::get(p + c * lane), typename L::V);
    }
    template <class A>
    void narrow(A* p) const {
        using Own = Lanes<A, lane * int(sizeof(A))>;
        for (int c = 0; c < count; c++) Own::put(p + c * lane, __builtin_convertvector(v[c], typename Own::V));
    }
};

// What a row map does to rows: nothing, subtract the shift, or all that it can do.
enum class Mapping { none, shift, all };

// Columns that are copied at a time, and rows whose columns are: these rows stay in the first-level cache meanwhile.
template <class A>
constexpr int COPIED_COLUMNS = STRIP<A> < 8 ? int(STRIP<A>) : 8;
constexpr i64 COPIED_ROWS = 16;

// Copies some columns, from column c on, of `count` rows from row i on. They go into the strip at `out` and, in double,
// into the sums. `x` is where column c of row i is, and rows are `stride` numbers apart.
template <Mapping mapping, class T, class A>
inline void copy_columns(const RowMap<T>& map, const T* x, i64 stride, i64 i, i64 count, i64 c,
                         const GramColumns& columns, A* out) {
    constexpr bool all = mapping == Mapping::all;
    using Some = Doubles<COPIED_COLUMNS<A>>;
    Some first, squares, shift, scale, z;
    first.load(columns.first + c);
    squares.load(columns.squares + c);
    shift.load(columns.shift + c);
    scale.load(columns.scale + c);
    for (i64 r = 0; r < count; r++) {
        const double a = all ? row_factor(map, i + r) : 1.0, b = all ? row_shift(map, i + r) : 1.0;
        const double weight = all ? row_scale(map, i + r) : 1.0;
        z.widen(x + r * stride);
        for (int e = 0; e < Some::count; e++) {
            if (mapping == Mapping::shift) z.v[e] -= shift.v[e];
            if (all) z.v[e] = a * (z.v[e] * scale.v[e] - b * shift.v[e]);
            first.v[e] += all ? weight * z.v[e] : z.v[e];
            squares.v[e] += z.v[e] * z.v[e];
        }
        z.narrow(out + r * STRIP<A>);
    }
    first.store(columns.first + c);
    squares.store(columns.squares + c);
}

// Copies at most COPIED_ROWS rows from row i on. What the padding of the strips receives does not matter: the numbers
// after a row, which belong to the next rows. After the last row there are none, so the ends of the last rows are read
// from a copy.
template <Mapping mapping, class T, class A>
void copy_rows(const DenseRows<T>& rows, i64 i, i64 count, const GramColumns& columns, A* strips) {
    constexpr i64 S = STRIP<A>, step = COPIED_COLUMNS<A>;
    const i64 d = rows.d, side = gram_side<A>(d);
    const T* x = rows.X + i * d;
    const i64 whole = (i + count - 1) * d + side <= rows.n * d ? side : d / step * step;
    for (i64 c = 0; c < whole; c += step)
        copy_columns<mapping>(rows.map, x + c, d, i, count, c, columns, strips + c / S * S * GRAM_ROWS + c % S);
    if (whole == side) return;
    T ends[COPIED_ROWS * S];
    for (i64 r = 0; r < count; r++)
        for (i64 e = 0; e < S; e++) ends[r * S + e] = whole + e < d ? x[r * d + whole + e] : T(0);
    for (i64 c = whole; c < side; c += step)
        copy_columns<mapping>(rows.map, ends + c - whole, S, i, count, c, columns, strips + c / S * S * GRAM_ROWS + c % S);
}

template <class T, class A>
void fill_strips(const DenseRows<T>& rows, i64 first, i64 count, const GramColumns& columns, A* strips) {
    const RowMap<T>& map = rows.map;
    const bool all = map.col_scale || map.row_scale || map.row_shift || map.unit != 1;
    for (i64 r = 0; r < count; r += COPIED_ROWS) {
        const i64 i = first + r, some = count - r < COPIED_ROWS ? count - r : COPIED_ROWS;
        A* out = strips + r * STRIP<A>;
        if (all) copy_rows<Mapping::all>(rows, i, some, columns, out);
        else if (map.shift) copy_rows<Mapping::shift>(rows, i, some, columns, out);
        else copy_rows<Mapping::none>(rows, i, some, columns, out);
    }
}

// ---------------------------------------------------------------------------------------- products of strips

// Products of `columns` columns with the first N columns of a strip, summed over `count` rows in T, then added to G in
// double. left[q] is column q; there are `most` of them, though not all may count.
template <class T, int N, int most>
inline void gram_tile(const T* const* left, i64 columns, const T* right, i64 count, double* G, i64 side) {
    constexpr int S = int(STRIP<T>);
    constexpr bool beside = S % most == 0;  // whether all columns are in one strip: one address is enough then
    Pack<T, N> sum[most];
    for (int q = 0; q < most; q++) sum[q].zero();
    for (i64 r = 0; r < count; r++) {
        Pack<T, N> y;
        y.load(right + r * S);
        for (int q = 0; q < most; q++) sum[q].add_product(beside ? left[0][r * S + q] : left[q][r * S], y);
    }
    for (i64 q = 0; q < columns; q++) {
        T t[N];
        sum[q].store(t);
        double* g = G + q * side;
#pragma omp simd
        for (int e = 0; e < N; e++) g[e] += double(t[e]);
    }
}

// Products of all columns, `most` at a time, with the first N columns of the strips that begin at the columns from
// `start` to before `stop`; strips before a column's own are left out.
template <class T, int N, int most>
void gram_tiles(const T* strips, i64 count, i64 start, i64 stop, i64 d, Ahead& ahead, double* G) {
    constexpr i64 S = STRIP<T>;
    const i64 side = gram_side<T>(d);
    for (i64 i = 0; i < d; i += most) {
        const T* left[most];
        for (i64 q = 0; q < most; q++) {
            const i64 column = i + q < side ? i + q : side - 1;
            left[q] = strips + column / S * S * GRAM_ROWS + column % S;
        }
        const i64 columns = side - i < most ? side - i : most, own = i / S * S;
        for (i64 c = own < start ? start : own; c < stop; c += S) {
            ahead.ask();
            gram_tile<T, N, most>(left, columns, strips + c * GRAM_ROWS, count, G + i * side + c, side);
        }
    }
}

template <class T, class A>
void gram(const DenseRows<T>& rows, i64 lo, i64 hi, double* G, double* sums, A* strips) {
    constexpr i64 S = STRIP<A>;
    const i64 d = rows.d, side = gram_side<A>(d);
    const bool half = d - (side - S) <= S / 2;  // whether the last strip has columns in its first half only
    const GramColumns columns(sums, side, d, rows.map);
    constexpr int whole = int(S), wide = int(BROADCAST<A>), narrow = int(HALF_BROADCAST<A>);
    const i64 tiles = (d + wide - 1) / wide * (side / S + 1) / 2, bytes = GRAM_ROWS * d * i64(sizeof(T));  // about
    for (i64 first = lo; first < hi; first += GRAM_ROWS) {
        const i64 count = hi - first < GRAM_ROWS ? hi - first : GRAM_ROWS;
        fill_strips(rows, first, count, columns, strips);
        columns.add_up();
        Ahead ahead{rows.X + first * d, bytes, (bytes / tiles + 63) / 64 * 64};
        gram_tiles<A, whole, wide>(strips, count, 0, half ? side - S : side, d, ahead, G);
        if (half) gram_tiles<A, whole / 2, narrow>(strips, count, side - S, side, d, ahead, G);
    }
}

#define VRPCA_INSTANTIATE(Rows)                                            \
    template void gram(const Rows&, i64, i64, double*, double*, Rows::T*); \
    template i64 gram_side<Rows::T>(i64);                                  \
    template i64 gram_room<Rows::T>(i64);
VRPCA_EACH_DENSE(VRPCA_INSTANTIATE)
#undef VRPCA_INSTANTIATE
template void gram(const DenseRowsF32&, i64, i64, double*, double*, double*);

}  // namespace VRPCA_ISA
}  // namespace vrpca
