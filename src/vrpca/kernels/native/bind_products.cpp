// Bindings of the kernels of products.hpp and gram.hpp. The rows are split among threads, and every thread has sums
// of its own. The sums are added in order, so that a result depends only on the number of threads.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "binding.hpp"
#include "parts.hpp"

namespace vrpca {
namespace {

// ------------------------------------------------------------------------------------------------- sparse rows

// Rows whose contributions are summed in T before they are added to U. More rows make the adding cheaper. Fewer rows
// keep rounding from growing with the number of rows. There are at least 16384 rows, and at least 8 stored entries
// per column.
template <class T, class I>
i64 rows_per_sum(const CsrRows<T, I>& r) {
    const i64 entries = r.indptr[r.n] - r.indptr[0];
    return std::max<i64>(16384, entries ? i64(8.0 * double(r.d) * double(r.n) / double(entries)) : r.n);
}

// A product with fewer than two entries per column works on W and U themselves: copies would cost more than they save.
template <class T, class I>
bool few_entries(const CsrRows<T, I>& r) { return r.indptr[r.n] - r.indptr[0] < 2 * r.d; }

// m^T W for `count` columns of W, whose rows are l apart.
template <class T>
std::vector<double> shift_times(const double* m, const T* W, i64 d, i64 l, i64 count) {
    std::vector<double> mW(count);
    for (i64 j = 0; j < d; j++)
        for (i64 c = 0; c < count; c++) mW[c] += m[j] * double(W[j * l + c]);
    return mW;
}

// U -= m tail^T.
template <class T>
void subtract_shift(const double* m, const double* tail, i64 d, i64 l, i64 count, T* U) {
    for (i64 j = 0; j < d; j++)
        for (i64 c = 0; c < count; c++) U[j * l + c] = T(double(U[j * l + c]) - m[j] * tail[c]);
}

// Every thread has a table of its own. A row of it has a row of W and one of U side by side, padded to whole registers.
// So an entry of X touches one or two cache lines, and the update of U finds in the cache what the product with W read.
template <class T>
struct Table {
    T* rows;
    i64 width;  // columns of W, and of U
    T& W(i64 j, i64 c) const { return rows[2 * j * width + c]; }
    T& U(i64 j, i64 c) const { return rows[(2 * j + 1) * width + c]; }

    void fill(const T* W_, i64 d, i64 l, i64 count) const {
        for (i64 j = 0; j < d; j++) {
            for (i64 c = 0; c < count; c++) W(j, c) = W_[j * l + c];
            for (i64 c = count; c < width; c++) W(j, c) = 0;
        }
    }
    void clear(i64 d) const {
        for (i64 j = 0; j < d; j++) std::fill(&U(j, 0), &U(j, 0) + width, T(0));
    }
};

// U += Z^T (Z W) by tables, for `count` columns of matrices with l columns.
template <class T, class I>
void product_by_tables(const BoundRows<CsrRows<T, I>>& self, const T* W, i64 l, i64 count, T* U, T* P, i64 threads,
                       const double* mW, double* tail) {
    const auto& r = self.rows;
    const i64 d = r.d, width = DISPATCH(padded(count)), entries = r.indptr[r.n] - r.indptr[0];
    const i64 parts = std::max<i64>(1, std::min<i64>(threads, entries / std::max<i64>(1, d)));
    const i64 per_sum = rows_per_sum(r);
    const auto cut = split(r, parts);
    const Borrowed<T> room(*self.room, 2 * parts * d * width);
    const auto table = [&](i64 p) { return Table<T>{room.get() + 2 * p * d * width, width}; };
    auto tails = zeros<double>(parts * count);
    const i64 sums = r.n <= per_sum * parts ? 1 : (largest_part(cut) + per_sum - 1) / per_sum;
    for (i64 s = 0; s < sums; s++) {
        in_parallel(parts, [&](i64 p) {
            const auto mine = table(p);
            if (s == 0) mine.fill(W, d, l, count);
            mine.clear(d);
            const i64 lo = sums == 1 ? cut[p] : std::min(cut[p + 1], cut[p] + s * per_sum);
            const i64 hi = sums == 1 ? cut[p + 1] : std::min(cut[p + 1], lo + per_sum);
            const Columns<T> of{&mine.W(0, 0), &mine.U(0, 0), 2 * width, count, width, l};
            DISPATCH(product(r, lo, hi, of, mW, P, tails.get() + p * count));
        });
        in_parallel(parts, [&](i64 q) {
            for (i64 j = d * q / parts; j < d * (q + 1) / parts; j++)
                for (i64 c = 0; c < count; c++) {
                    double u = 0;
                    for (i64 p = 0; p < parts; p++) u += double(table(p).U(j, c));
                    U[j * l + c] = T(double(U[j * l + c]) + u);
                }
        });
    }
    for (i64 p = 0; p < parts; p++)
        for (i64 c = 0; c < count; c++) tail[c] += tails[p * count + c];
}

// U += Z^T (Z W) for `count` columns of matrices with l columns.
template <class T, class I>
void some_columns(const BoundRows<CsrRows<T, I>>& self, const T* W, i64 l, i64 count, T* U, T* P, i64 threads) {
    const auto& r = self.rows;
    const double* m = r.map.shift;
    const auto mW = m ? shift_times(m, W, r.d, l, count) : std::vector<double>();
    const double* mW_ = m ? mW.data() : nullptr;
    auto tail = zeros<double>(count);
    if (few_entries(r)) DISPATCH(product(r, 0, r.n, Columns<T>{W, U, l, count, count, l}, mW_, P, tail.get()));
    else product_by_tables(self, W, l, count, U, P, threads, mW_, tail.get());
    if (m) subtract_shift(m, tail.get(), r.d, l, count, U);
}

// Columns that are multiplied at a time where W is large. All of them are in one chunk of the kernel, and W and U stay
// in the cache. With 20000 rows of W, float32 and two threads (512 kB of second-level cache each), 144 columns take 43 ns
// of processor time per entry instead of 170 to 190, and 32 columns take 10 instead of 14 to 17.
constexpr i64 STRIP = 16;
constexpr i64 LARGE = 1 << 20;  // bytes of W that do not stay in a second-level cache of 512 kB to 2 MB together with U

// U += Z^T (Z W): all columns at once, or strip by strip.
template <class T, class I>
void product(const BoundRows<CsrRows<T, I>>& self, const T* W, i64 l, T* U, T* P, i64 threads) {
    const auto& r = self.rows;
    const bool at_once = l <= STRIP || r.d * l * i64(sizeof(T)) <= LARGE || few_entries(r);
    const i64 step = at_once ? std::max<i64>(l, 1) : STRIP;
    for (i64 c = 0; c < l; c += step)
        some_columns(self, W + c, l, std::min(step, l - c), U + c, P ? P + c : nullptr, threads);
}

// -------------------------------------------------------------------------------------------------- dense rows

// U += Z^T (Z W). W and the sums are column-major. If the map is `late`, its column scale and shift are applied to
// them.
template <class T>
void product(const BoundRows<DenseRows<T>>& self, const T* W, i64 l, T* U, T* P, i64 threads) {
    const auto& r = self.rows;
    const i64 d = r.d, parts = parts_of(r, threads);
    const i64 ld = DISPATCH(column_length<T>(d)), size = l * ld, own = DISPATCH(product_room<T>(d, l));
    const T* s = r.map.late ? r.map.col_scale : nullptr;
    const double* m = r.map.late ? r.map.shift : nullptr;
    const auto cut = split(r, parts);
    const auto mW = m ? shift_times(m, W, d, l, l) : std::vector<double>();
    const Borrowed<T> room(*self.room, size + parts * own);
    const Borrowed<double> sums(*self.totals, parts * (size + l));
    T* Wt = room.get();
    for (i64 c = 0; c < l; c++) {
        for (i64 j = 0; j < d; j++) Wt[c * ld + j] = s ? s[j] * W[j * l + c] : W[j * l + c];
        std::fill(Wt + c * ld + d, Wt + (c + 1) * ld, T(0));
    }
    in_parallel(parts, [&](i64 p) {
        double* mine = sums.get() + p * (size + l);
        std::fill(mine, mine + size + l, 0.0);
        DISPATCH(product(r, cut[p], cut[p + 1], Wt, m ? mW.data() : nullptr, l, mine, P, mine + size,
                         Wt + size + p * own));
    });
    for (i64 c = 0; c < l; c++) {
        double tail = 0;
        for (i64 p = 0; p < parts; p++) tail += sums.get()[p * (size + l) + size + c];
        for (i64 j = 0; j < d; j++) {
            double u = 0;
            for (i64 p = 0; p < parts; p++) u += sums.get()[p * (size + l) + c * ld + j];
            if (s) u *= double(s[j]);
            if (m) u -= m[j] * tail;
            U[j * l + c] = T(double(U[j * l + c]) + u);
        }
    }
}

// G += Z^T Z and first += Z^T r, with the row scales r. The kernel sums up one triangle only.
template <class T>
void gram(const DenseRows<T>& r, double* G, double* first, i64 threads) {
    const i64 parts = parts_of(r, threads), d = r.d;
    const i64 side = DISPATCH(gram_side<T>(d)), room = DISPATCH(gram_room<T>(d));
    const auto cut = split(r, parts);
    auto sums = zeros<double>(parts * side * side);
    auto strips = scratch<T>(parts * room);
    in_parallel(parts, [&](i64 p) {
        DISPATCH(gram(r, cut[p], cut[p + 1], sums.get() + p * side * side, strips.get() + p * room));
    });
    for (i64 i = 0; i < d; i++)
        for (i64 j = i; j <= d; j++) {
            double g = 0;
            for (i64 p = 0; p < parts; p++) g += sums[(p * side + i) * side + j];
            if (j == d) first[i] += g;
            else G[i * d + j] += g;
            if (i < j && j < d) G[j * d + i] = G[i * d + j];
        }
}

// ---------------------------------------------------------------------------------------------------- bindings

template <class R>
void bind_product(nb::module_& m) {
    using T = typename R::T;
    m.def("product", [](const BoundRows<R>& self, Mat<const T> W, Mat<T> U, OptMat<T> P, i64 threads) {
        i64 l = W.shape(1);
        require(i64(W.shape(0)) == self.rows.d && i64(U.shape(0)) == self.rows.d && i64(U.shape(1)) == l,
                "W and U must be (columns of the data) x l");
        require(!P || (i64(P->shape(0)) == self.rows.n && i64(P->shape(1)) == l), "P must be (rows of the block) x l");
        nb::gil_scoped_release release;
        product(self, W.data(), l, U.data(), P ? P->data() : nullptr, threads);
    }, "rows"_a, array("W"), array("U"), optional_array("P"), "threads"_a);
}

template <class R>
void bind_gram(nb::module_& m) {
    m.def("gram", [](const BoundRows<R>& self, Mat<double> G, Vec<double> first, i64 threads) {
        const i64 d = self.rows.d;
        require(i64(G.shape(0)) == d && i64(G.shape(1)) == d && i64(first.size()) == d,
                "G must be (columns of the data) squared, first as long as a row");
        nb::gil_scoped_release release;
        gram(self.rows, G.data(), first.data(), threads);
    }, "rows"_a, array("G"), array("first"), "threads"_a);
}

}  // namespace

void bind_products(nb::module_& m) {
#define VRPCA_BIND(Rows) bind_product<Rows>(m);
    VRPCA_EACH_ROWS(VRPCA_BIND)
#undef VRPCA_BIND
#define VRPCA_BIND(Rows) bind_gram<Rows>(m);
    VRPCA_EACH_DENSE(VRPCA_BIND)
#undef VRPCA_BIND
}

}  // namespace vrpca
