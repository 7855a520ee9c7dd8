// Bindings of the kernels of products.hpp and gram.hpp. The rows are split among threads, and every thread has sums
// of its own. The sums are added in order, so that a result depends only on the number of threads.
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "binding.hpp"
#include "column_moments.hpp"
#include "parts.hpp"

namespace vrpca {
namespace {

// ------------------------------------------------------------------------------------------------- sparse rows

// Rows of a run, on average, after which some sums are settled. Fewer rows keep sums shorter. More rows cost less time.
// The lengths of runs are between half of it and three halves, by the bits of the run's number shuffled (the finaliser
// of splitmix64, Steele et al. 2014): rows that repeat after a fixed number of rows must not escape.
constexpr i64 RUN = 128;
inline i64 run_length(i64 run) {
    std::uint64_t x = std::uint64_t(run + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return RUN / 2 + i64((x ^ (x >> 31)) % std::uint64_t(RUN + 1));
}

// Sums in double, of columns that have many entries. Equal numbers are rounded one way in a sum in A: 16000 of them can
// be off by a thousand roundings. So sums are settled from time to time: they are moved from U to sums in double. Before
// each run of rows, this is done for the columns where the first of these rows has an entry. So a column gets RUN
// entries between two times on average, however sparse it is. The first time, a column is only marked: most columns of few entries
// are not seen again, and cost nothing more.
template <class A>
struct Settled {
    i64 l, ld;            // of U (d x l, with rows ld apart)
    std::int32_t* place;  // of each column among the sums
    i64* columns;         // the columns that have sums
    double* sums;         // l for each of them
    i64 count;            // how many columns have sums

    static constexpr std::int32_t UNSEEN = -2, SEEN = -1;

    void begin(i64 d) { std::fill(place, place + d, UNSEEN); }

    // Moves the sums of these columns away from U.
    template <class I>
    void take(const I* indices, i64 entries, A* U) {
        for (i64 k = 0; k < entries; k++) {
            const i64 j = indices[k];
            if (place[j] == UNSEEN) {
                place[j] = SEEN;
                continue;
            }
            A* u = U + j * ld;
            double* sum = sum_of(j);
            for (i64 c = 0; c < l; c++) {
                sum[c] += double(u[c]);
                u[c] = A(0);
            }
        }
    }

    double* sum_of(i64 j) {
        if (place[j] == SEEN) {
            place[j] = std::int32_t(count);
            columns[count] = j;
            std::fill(sums + count * l, sums + (count + 1) * l, 0.0);
            count++;
        }
        return sums + place[j] * l;
    }

    // Adds all sums to `out`, whose rows may be another distance apart.
    void give_back(A* out, i64 apart) const {
        for (i64 k = 0; k < count; k++) {
            A* u = out + columns[k] * apart;
            for (i64 c = 0; c < l; c++) u[c] = A(double(u[c]) + sums[k * l + c]);
        }
    }
};

// The most columns that can have sums: those of the first rows of all runs.
template <class T, class I>
i64 most_settled(const CsrRows<T, I>& r, i64 lo, i64 hi) {
    i64 entries = 0, run = 0;
    for (i64 i = lo; i < hi; i += run_length(run++)) entries += r.indptr[i + 1] - r.indptr[i];
    return std::min<i64>(r.d, entries);
}

struct SparsePlan {
    bool in_place;  // W and U are used as they are; otherwise W is copied, and every thread has a U of its own
    i64 width;      // the distance between the rows of W, and between the rows of a thread's U
    i64 parts;      // the number of threads
    i64 copies;     // the number of threads that have a U of their own
};

// W, U and P of a product with some of their columns. Rows are ld apart. P may be null.
template <class A>
struct Block {
    const A* W;
    i64 l, ld;
    A *U, *P;
};

// Fewer than two entries per column: copies of W and U would cost more than they save.
template <class T, class I>
bool few_entries(const CsrRows<T, I>& r) { return r.indptr[r.n] - r.indptr[0] < 2 * r.d; }

// W and U are used as they are if they have no other columns, and rows of 1, 2 or 4 numbers or of whole registers of 32
// bytes. They are also used as they are if there are few entries. Where they lie in memory must not count: another plan
// adds in another order. A thread gets at least as many entries as its own U has rows.
template <class A, class T, class I>
SparsePlan plan_product(const CsrRows<T, I>& r, const Block<A>& b, i64 threads) {
    const i64 l = b.l, entries = r.indptr[r.n] - r.indptr[0];
    const bool few = few_entries(r);
    SparsePlan plan;
    plan.in_place = b.ld == l && (few || l <= 2 || l == 4 || l * i64(sizeof(A)) % 32 == 0);
    plan.width = plan.in_place ? l : DISPATCH(padded(l));
    plan.parts = few ? 1 : std::max<i64>(1, std::min<i64>(threads, entries / std::max<i64>(1, r.d)));
    plan.copies = plan.in_place ? plan.parts - 1 : plan.parts;
    return plan;
}

// W (d x l) with rows `width` apart, zero past column l.
template <class A>
void pad(const Block<A>& b, i64 d, i64 width, i64 parts, A* out) {
    in_parallel(parts, [&](i64 p) {
        for (i64 j = d * p / parts; j < d * (p + 1) / parts; j++) {
            std::copy(b.W + j * b.ld, b.W + j * b.ld + b.l, out + j * width);
            std::fill(out + j * width + b.l, out + (j + 1) * width, A(0));
        }
    });
}

// A matrix with any distances between its rows and between its columns.
template <class A>
struct Strided {
    A* data;
    i64 rows_apart, columns_apart;
    A& operator()(i64 j, i64 c) const { return data[j * rows_apart + c * columns_apart]; }
};

// m^T W. Eight columns at a time: their sums do not wait for each other, and all layouts are walked fast.
template <class A>
std::vector<double> shift_times(const double* m, Strided<const A> W, i64 d, i64 l) {
    constexpr i64 most = 8;
    std::vector<double> mW(l);
    for (i64 first = 0; first < l; first += most) {
        const i64 count = std::min(most, l - first);
        double sum[most] = {};
        if (count == most)  // the compiler knows the number: sums stay in registers
            for (i64 j = 0; j < d; j++)
                for (i64 c = 0; c < most; c++) sum[c] += m[j] * double(W(j, first + c));
        else
            for (i64 j = 0; j < d; j++)
                for (i64 c = 0; c < count; c++) sum[c] += m[j] * double(W(j, first + c));
        std::copy(sum, sum + count, mW.begin() + first);
    }
    return mW;
}

// Room for numbers that are multiplied in A.
template <class A, class R>
Room<A>& room_for(const BoundRows<R>& self) {
    if constexpr (std::is_same_v<A, typename R::T>) return *self.room;
    else return *self.wide;
}

// U += Z^T (Z W). The last thread works on U itself if it can.
template <class A, class T, class I>
void few_columns(const BoundRows<CsrRows<T, I>>& self, const Block<A>& b, i64 threads) {
    const auto& r = self.rows;
    const i64 d = r.d, l = b.l;
    const double* m = r.map.shift;
    const auto plan = plan_product(r, b, threads);
    const i64 parts = plan.parts, size = d * plan.width;
    const auto cut = split(r, parts);
    const Borrowed<A> room(room_for<A>(self), (plan.copies + !plan.in_place) * size);
    A *partial = room.get(), *copy = partial + plan.copies * size;
    if (!plan.in_place) pad(b, d, plan.width, parts, copy);
    const A* W = plan.in_place ? b.W : copy;
    const auto mW = m ? shift_times(m, Strided<const A>{W, plan.width, 1}, d, l) : std::vector<double>();
    auto tail = zeros<double>(parts * l);
    const bool long_sums = largest_part(cut) > RUN;
    i64 most = 0;
    for (i64 p = 0; long_sums && p < parts; p++) most = std::max(most, most_settled(r, cut[p], cut[p + 1]));
    const Borrowed<double> sums(*self.totals, parts * most * l);
    const Borrowed<std::int32_t> places(*self.places, long_sums ? parts * d : 0);
    const Borrowed<i64> columns(*self.columns, parts * most);
    std::vector<Settled<A>> settled;
    for (i64 p = 0; p < parts; p++)
        settled.push_back({l, plan.width, places.get() + p * d, columns.get() + p * most, sums.get() + p * most * l, 0});
    in_parallel(parts, [&](i64 p) {
        A* mine = p < plan.copies ? partial + p * size : b.U;
        if (p < plan.copies) std::fill(mine, mine + size, A(0));
        if (long_sums) settled[p].begin(d);
        for (i64 lo = cut[p], run = 0, next; lo < cut[p + 1]; lo = next) {
            const i64 first = r.indptr[lo];
            next = std::min(cut[p + 1], lo + run_length(run++));
            if (long_sums) settled[p].take(r.indices + first, i64(r.indptr[lo + 1]) - first, mine);
            DISPATCH(product(r, lo, next, W, m ? mW.data() : nullptr, l, plan.width, mine,
                             b.P, b.ld, tail.get() + p * l));
        }
    });
    for (i64 p = 1; p < parts; p++)
        for (i64 c = 0; c < l; c++) tail[c] += tail[p * l + c];
    if (plan.copies || m)
        in_parallel(parts, [&](i64 q) {
            DISPATCH(add_partials(partial, plan.copies, d, d * q / parts, d * (q + 1) / parts, l, plan.width, m,
                                  tail.get(), b.U, b.ld));
        });
    for (const auto& each : settled) each.give_back(b.U, b.ld);
}

// Columns that are multiplied at a time where W is large. All of them are in one chunk of the kernel, and more of W and
// U stays in the cache. With 20000 rows of W, float32 and two threads (512 kB of second-level cache each), 144 columns
// take 43 ns of processor time per entry instead of 170 to 190, and 32 columns take 10 instead of 14 to 17.
constexpr i64 STRIP = 16;
constexpr i64 WHOLE = 96;  // bytes of a row of W that are one chunk of the kernel, too: 24 floats take less than 16 and 8
constexpr i64 LARGE = 1 << 20;  // bytes of W that do not stay in a second-level cache of 512 kB to 2 MB together with U

// U += Z^T (Z W): all columns at once, or strip by strip. W and U are row-major, without gaps.
template <class A, class T, class I>
void product(const BoundRows<CsrRows<T, I>>& self, Strided<const A> W, i64 l, Strided<A> U, A* P, i64 threads) {
    const auto& r = self.rows;
    const i64 row = l * i64(sizeof(A));
    const i64 most = row <= WHOLE || r.d * row <= LARGE || few_entries(r) ? l : STRIP;
    for (i64 c = 0; c < l; c += most)
        few_columns(self, Block<A>{W.data + c, std::min(most, l - c), l, U.data + c, P ? P + c : nullptr}, threads);
}

// -------------------------------------------------------------------------------------------------- dense rows

// U += Z^T (Z W). The copy of W and the sums are column-major, so W and U are walked fastest if they are, too. If the map
// is `late`, its column scale and shift are applied to them, unless numbers are multiplied in another type than that of
// the data. `columns` has sums for each part, or is null.
template <class A, class T>
void product(const BoundRows<DenseRows<T>>& self, Strided<const A> W, i64 l, Strided<A> U, A* P, i64 threads,
             ColumnSums<T>* columns = nullptr) {
    const auto& r = self.rows;
    const i64 d = r.d, parts = parts_of(r, threads);
    const i64 ld = DISPATCH(column_length<A>(d)), own = DISPATCH(product_room<A>(d, l));
    const i64 size = (l * ld + 15) / 16 * 16, with_tail = size + (l + 7) / 8 * 8;  // every part begins with a cache line
    const bool late = r.map.late && std::is_same_v<A, T>;
    const T* s = late ? r.map.col_scale : nullptr;
    const double* m = late ? r.map.shift : nullptr;
    const auto cut = split(r, parts);
    const auto mW = m ? shift_times(m, W, d, l) : std::vector<double>();
    const Borrowed<A> room(room_for<A>(self), size + parts * own);
    const Borrowed<double> sums(*self.totals, parts * with_tail);
    A* Wt = room.get();
    in_parallel(parts, [&](i64 q) {
        for (i64 c = l * q / parts; c < l * (q + 1) / parts; c++) {
            for (i64 j = 0; j < d; j++) Wt[c * ld + j] = s ? s[j] * W(j, c) : W(j, c);
            std::fill(Wt + c * ld + d, Wt + (c + 1) * ld, A(0));
        }
    });
    in_parallel(parts, [&](i64 p) {
        double* mine = sums.get() + p * with_tail;
        std::fill(mine, mine + with_tail, 0.0);
        DISPATCH(product(r, cut[p], cut[p + 1], Wt, m ? mW.data() : nullptr, l, mine, P, mine + size,
                         Wt + size + p * own, columns ? columns + p : nullptr));
    });
    in_parallel(parts, [&](i64 q) {
        for (i64 c = l * q / parts; c < l * (q + 1) / parts; c++) {
            double tail = 0;
            for (i64 p = 0; p < parts; p++) tail += sums.get()[p * with_tail + size + c];
            for (i64 j = 0; j < d; j++) {
                double u = 0;
                for (i64 p = 0; p < parts; p++) u += sums.get()[p * with_tail + c * ld + j];
                if (s) u *= double(s[j]);
                if (m) u -= m[j] * tail;
                U(j, c) = A(double(U(j, c)) + u);
            }
        }
    });
}

// --------------------------------------------------------------------------------------- products with moments

// U += Z^T (Z W), and the moments of X. Where rows are dense, they are read once for both.
template <class T>
Moments product_with_moments(const BoundRows<DenseRows<T>>& self, const T* W, i64 l, T* U, const double* weight,
                             double factor, bool about_zero, i64 threads) {
    const auto& r = self.rows;
    const auto cut = split(r, parts_of(r, threads));
    std::vector<Moments> part;
    std::vector<ColumnSums<T>> columns;
    for (size_t p = 0; p + 1 < cut.size(); p++) {
        part.push_back({0, zeros<double>(r.d), zeros<double>(r.d)});
        double *mean = part[p].mean.get(), *M2 = part[p].M2.get();
        if (about_zero) columns.push_back({weight, factor, nullptr, nullptr, M2});
        else columns.push_back(DISPATCH(empty_sums(r, cut[p], cut[p + 1], weight, factor, mean, M2)));
    }
    product(self, Strided<const T>{W, l, 1}, l, Strided<T>{U, l, 1}, static_cast<T*>(nullptr), threads, columns.data());
    for (size_t p = 0; p < part.size(); p++) {
        if (!about_zero) DISPATCH(finish(columns[p], r.d));
        part[p].total = columns[p].total;
        if (p > 0) merge(part[0], part[p], r.d);
    }
    return std::move(part[0]);
}
template <class T, class I>
Moments product_with_moments(const BoundRows<CsrRows<T, I>>& self, const T* W, i64 l, T* U, const double* weight,
                             double factor, bool about_zero, i64 threads) {
    product(self, Strided<const T>{W, l, 1}, l, Strided<T>{U, l, 1}, static_cast<T*>(nullptr), threads);
    return about_zero ? squares(self.rows, weight, factor, threads) : moments(self.rows, weight, factor, threads);
}

// ------------------------------------------------------------------------------------------------------- A itself

// G += the sums of all parts, which have its upper triangle. Rows of G are dealt out to the threads in turns, because
// later rows of the triangle are shorter. Then the lower triangle is copied from the upper one, tile by tile.
void add_triangles(const double* sums, i64 parts, i64 side, i64 d, double* G) {
    constexpr i64 TILE = 32;
    in_parallel(parts, [&](i64 q) {
        for (i64 i = q; i < d; i += parts)
            for (i64 p = 0; p < parts; p++) {
                const double* row = sums + (p * side + i) * side;
#pragma omp simd
                for (i64 j = i; j < d; j++) G[i * d + j] += row[j];
            }
    });
    in_parallel(parts, [&](i64 q) {
        for (i64 i0 = q * TILE; i0 < d; i0 += parts * TILE)
            for (i64 j0 = 0; j0 <= i0; j0 += TILE)
                for (i64 i = i0; i < std::min(d, i0 + TILE); i++)
                    for (i64 j = j0; j < std::min(i, j0 + TILE); j++) G[i * d + j] = G[j * d + i];
    });
}

// Rows of a part, at least: clearing its sums and adding them up takes as long as some 30 rows do.
constexpr i64 LEAST_GRAM_ROWS = 256;

// G += Z^T Z, first += Z^T r with the row scales r, and squares += those of the columns of Z. A is the type that numbers
// are multiplied in.
template <class A, class T>
void gram(const DenseRows<T>& r, double* G, double* first, double* squares, i64 threads) {
    const i64 d = r.d, parts = std::max<i64>(1, std::min(parts_of(r, threads), r.n / LEAST_GRAM_ROWS));
    if (d == 0) return;
    const i64 side = DISPATCH(gram_side<A>(d)), size = side * side, room = DISPATCH(gram_room<A>(d));
    const auto cut = split(r, parts);
    auto sums = scratch<double>(parts * size), columns = scratch<double>(parts * 6 * side);
    auto strips = scratch<A>(parts * room);
    in_parallel(parts, [&](i64 p) {
        double* mine = sums.get() + p * size;
        std::fill(mine, mine + size, 0.0);
        DISPATCH(gram(r, cut[p], cut[p + 1], mine, columns.get() + p * 6 * side, strips.get() + p * room));
    });
    add_triangles(sums.get(), parts, side, d, G);
    for (i64 p = 0; p < parts; p++)
        for (i64 i = 0; i < d; i++) {
            first[i] += columns[p * 6 * side + i];
            squares[i] += columns[(p * 6 + 1) * side + i];
        }
}

// ---------------------------------------------------------------------------------------------------- bindings

// Numbers are multiplied in A, the type of W: that of the data, or double. M is the kind of array that W and U are.
template <template <class> class M, class R, class A = typename R::T>
void bind_product(nb::module_& m) {
    m.def("product", [](const BoundRows<R>& self, M<const A> W, M<A> U, OptMat<A> P, i64 threads) {
        i64 l = W.shape(1);
        require(i64(W.shape(0)) == self.rows.d && i64(U.shape(0)) == self.rows.d && i64(U.shape(1)) == l,
                "W and U must be (columns of the data) x l");
        require(!P || (i64(P->shape(0)) == self.rows.n && i64(P->shape(1)) == l), "P must be (rows of the block) x l");
        const Strided<const A> from{W.data(), W.stride(0), W.stride(1)};
        const Strided<A> to{U.data(), U.stride(0), U.stride(1)};
        nb::gil_scoped_release release;
        product(self, from, l, to, P ? P->data() : nullptr, threads);
    }, "rows"_a, array("W"), array("U"), optional_array("P"), "threads"_a);
}

template <class R>
void bind_product_with_moments(nb::module_& m) {
    using T = typename R::T;
    m.def("product_with_moments", [](const BoundRows<R>& self, Mat<const T> W, Mat<T> U, OptVec<const double> weight,
                                     double factor, bool about_zero, i64 threads) {
        const i64 l = W.shape(1), d = self.rows.d;
        require(i64(W.shape(0)) == d && i64(U.shape(0)) == d && i64(U.shape(1)) == l,
                "W and U must be (columns of the data) x l");
        require(!weight || i64(weight->size()) == self.rows.n, "weight must have one entry per row");
        Moments out;
        {
            nb::gil_scoped_release release;
            out = product_with_moments(self, W.data(), l, U.data(), data_or_null<double>(weight), factor, about_zero,
                                       threads);
        }
        return nb::make_tuple(out.total, as_array(std::move(out.mean), d), as_array(std::move(out.M2), d));
    }, "rows"_a, array("W"), array("U"), optional_array("weight"), "factor"_a, "about_zero"_a, "threads"_a);
}

template <class R>
void bind_gram(nb::module_& m) {
    m.def("gram", [](const BoundRows<R>& self, Mat<double> G, Vec<double> first, Vec<double> squares, i64 threads,
                     bool in_double) {
        const i64 d = self.rows.d;
        require(i64(G.shape(0)) == d && i64(G.shape(1)) == d && i64(first.size()) == d && i64(squares.size()) == d,
                "G must be (columns of the data) squared, first and squares as long as a row");
        nb::gil_scoped_release release;
        if (in_double) gram<double>(self.rows, G.data(), first.data(), squares.data(), threads);
        else gram<typename R::T>(self.rows, G.data(), first.data(), squares.data(), threads);
    }, "rows"_a, array("G"), array("first"), array("squares"), "threads"_a, "in_double"_a = false);
}

}  // namespace

void bind_products(nb::module_& m) {
#define VRPCA_BIND(Rows) bind_product<AnyMat, Rows>(m), bind_product_with_moments<Rows>(m), bind_gram<Rows>(m);
    VRPCA_EACH_DENSE(VRPCA_BIND)
#undef VRPCA_BIND
#define VRPCA_BIND(Rows) bind_product<Mat, Rows>(m), bind_product_with_moments<Rows>(m);
    VRPCA_EACH_CSR(VRPCA_BIND)
#undef VRPCA_BIND
    bind_product<AnyMat, DenseRowsF32, double>(m);
    bind_product<Mat, CsrRowsF32I32, double>(m);
    bind_product<Mat, CsrRowsF32I64, double>(m);
}

}  // namespace vrpca
