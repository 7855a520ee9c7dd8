// Bindings of the kernels of products.hpp and gram.hpp. The rows are split among threads, and every thread has sums
// of its own. The sums are added in order, so that a result depends only on the number of threads.
#include <algorithm>
#include <cstdint>
#include <type_traits>
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

struct SparsePlan {
    bool in_place;  // W and U are used as they are; otherwise W is copied, and every thread has a U of its own
    i64 width;      // the distance between the rows of W, and between the rows of a thread's U
    i64 parts;      // the number of threads
    i64 copies;     // the number of threads that have a U of their own
    i64 per_sum;    // the rows of a part that are summed before they are added to U
};

// W and U are used as they are if their rows fill whole registers and they begin with a cache line. They are also
// used as they are if there are fewer than two entries per column: a copy would cost more than it saves. A thread
// gets at least as many entries as its own U has rows.
template <class T, class I>
SparsePlan plan_product(const CsrRows<T, I>& r, i64 l, bool on_cache_lines, i64 threads) {
    const i64 entries = r.indptr[r.n] - r.indptr[0], per_sum = rows_per_sum(r);
    const bool few = entries < 2 * r.d, one_sum = few || r.n <= per_sum * threads;
    SparsePlan plan;
    plan.in_place = few || ((l <= 2 || l % 4 == 0) && on_cache_lines);
    plan.width = plan.in_place ? l : DISPATCH(padded(l));
    plan.parts = few ? 1 : std::max<i64>(1, std::min<i64>(threads, entries / std::max<i64>(1, r.d)));
    plan.copies = plan.in_place && one_sum ? plan.parts - 1 : plan.parts;
    plan.per_sum = one_sum ? std::max<i64>(1, r.n) : per_sum;
    return plan;
}

bool on_cache_line(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; }

// W (d x l) with rows `width` apart, zero past column l.
template <class T>
Memory<T> pad(const T* W, i64 d, i64 l, i64 width) {
    auto out = scratch<T>(d * width);
    for (i64 j = 0; j < d; j++) {
        for (i64 c = 0; c < l; c++) out[j * width + c] = W[j * l + c];
        for (i64 c = l; c < width; c++) out[j * width + c] = 0;
    }
    return out;
}

// m^T W.
template <class T>
std::vector<double> shift_times(const double* m, const T* W, i64 d, i64 l) {
    std::vector<double> mW(l);
    for (i64 j = 0; j < d; j++)
        for (i64 c = 0; c < l; c++) mW[c] += m[j] * double(W[j * l + c]);
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
void few_columns(const BoundRows<CsrRows<T, I>>& self, const A* W, i64 l, A* U, A* P, i64 threads) {
    const auto& r = self.rows;
    const i64 d = r.d;
    const double* m = r.map.shift;
    const auto plan = plan_product(r, l, on_cache_line(W) && on_cache_line(U), threads);
    const i64 parts = plan.parts, size = d * plan.width;
    const auto cut = split(r, parts);
    const auto copy = plan.in_place ? Memory<A>() : pad(W, d, l, plan.width);
    const auto mW = m ? shift_times(m, W, d, l) : std::vector<double>();
    const Borrowed<A> partial(room_for<A>(self), plan.copies * size);
    auto tail = zeros<double>(parts * l);
    const i64 sums = std::max<i64>(1, (largest_part(cut) + plan.per_sum - 1) / plan.per_sum);
    for (i64 s = 0; s < sums; s++) {
        in_parallel(parts, [&](i64 p) {
            A* mine = p < plan.copies ? partial.get() + p * size : U;
            if (p < plan.copies) std::fill(mine, mine + size, A(0));
            const i64 lo = std::min(cut[p + 1], cut[p] + s * plan.per_sum);
            const i64 hi = std::min(cut[p + 1], lo + plan.per_sum);
            DISPATCH(product(r, lo, hi, plan.in_place ? W : copy.get(), m ? mW.data() : nullptr, l, plan.width, mine, P,
                             tail.get() + p * l));
        });
        const bool last = s + 1 == sums;
        for (i64 p = 1; last && p < parts; p++)
            for (i64 c = 0; c < l; c++) tail[c] += tail[p * l + c];
        if (plan.copies || (m && last))
            in_parallel(parts, [&](i64 q) {
                DISPATCH(add_partials(partial.get(), plan.copies, d, d * q / parts, d * (q + 1) / parts, l, plan.width,
                                      last ? m : nullptr, tail.get(), U));
            });
    }
}

// Columns that are multiplied at a time where W is large. All of them are in one chunk of the kernel, and W and U stay in
// the cache. With 20000 rows of W, float32 and two threads (512 kB of second-level cache each), 144 columns take 43 ns
// of processor time per entry instead of 170 to 190, and 32 columns take 10 instead of 14 to 17.
constexpr i64 STRIP = 16;
constexpr i64 LARGE = 1 << 20;  // bytes of W that do not stay in a second-level cache of 512 kB to 2 MB together with U

// Go through columns c to c + w of a matrix (n x l): `move` gets the places in a strip (n x w) and in the matrix.
template <class Move>
void strip(i64 n, i64 l, i64 c, i64 w, Move move) {
    for (i64 j = 0; j < n; j++)
        for (i64 s = 0; s < w; s++) move(j * w + s, j * l + c + s);
}

// U += Z^T (Z W): all columns at once, or strip by strip.
template <class A, class T, class I>
void product(const BoundRows<CsrRows<T, I>>& self, const A* W, i64 l, A* U, A* P, i64 threads) {
    const auto& r = self.rows;
    const i64 d = r.d, entries = r.indptr[r.n] - r.indptr[0];
    if (l <= STRIP || d * l * i64(sizeof(A)) <= LARGE || entries < 2 * d) {
        few_columns(self, W, l, U, P, threads);
        return;
    }
    auto Ws = scratch<A>(d * STRIP), Us = scratch<A>(d * STRIP), Ps = scratch<A>(P ? r.n * STRIP : 0);
    for (i64 c = 0; c < l; c += STRIP) {
        const i64 w = std::min(STRIP, l - c);
        strip(d, l, c, w, [&](i64 to, i64 from) { Ws[to] = W[from]; });
        std::fill(Us.get(), Us.get() + d * w, A(0));
        few_columns(self, Ws.get(), w, Us.get(), P ? Ps.get() : nullptr, threads);
        strip(d, l, c, w, [&](i64 from, i64 to) { U[to] += Us[from]; });
        if (P) strip(r.n, l, c, w, [&](i64 from, i64 to) { P[to] = Ps[from]; });
    }
}

// -------------------------------------------------------------------------------------------------- dense rows

// U += Z^T (Z W). W and the sums are column-major. If the map is `late`, its column scale and shift are applied to
// them, unless numbers are multiplied in another type than that of the data.
template <class A, class T>
void product(const BoundRows<DenseRows<T>>& self, const A* W, i64 l, A* U, A* P, i64 threads) {
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
    for (i64 c = 0; c < l; c++) {
        for (i64 j = 0; j < d; j++) Wt[c * ld + j] = s ? s[j] * W[j * l + c] : W[j * l + c];
        std::fill(Wt + c * ld + d, Wt + (c + 1) * ld, A(0));
    }
    in_parallel(parts, [&](i64 p) {
        double* mine = sums.get() + p * with_tail;
        std::fill(mine, mine + with_tail, 0.0);
        DISPATCH(product(r, cut[p], cut[p + 1], Wt, m ? mW.data() : nullptr, l, mine, P, mine + size,
                         Wt + size + p * own));
    });
    for (i64 c = 0; c < l; c++) {
        double tail = 0;
        for (i64 p = 0; p < parts; p++) tail += sums.get()[p * with_tail + size + c];
        for (i64 j = 0; j < d; j++) {
            double u = 0;
            for (i64 p = 0; p < parts; p++) u += sums.get()[p * with_tail + c * ld + j];
            if (s) u *= double(s[j]);
            if (m) u -= m[j] * tail;
            U[j * l + c] = A(double(U[j * l + c]) + u);
        }
    }
}

// G += Z^T Z and first += Z^T r, with the row scales r. Numbers are multiplied in A. The kernel sums up one triangle only.
template <class A, class T>
void gram(const DenseRows<T>& r, double* G, double* first, i64 threads) {
    const i64 parts = parts_of(r, threads), d = r.d;
    const i64 side = DISPATCH(gram_side<A>(d)), room = DISPATCH(gram_room<A>(d));
    const auto cut = split(r, parts);
    auto sums = zeros<double>(parts * side * side);
    auto strips = scratch<A>(parts * room);
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

// Numbers are multiplied in A, the type of W: that of the data, or double.
template <class R, class A = typename R::T>
void bind_product(nb::module_& m) {
    m.def("product", [](const BoundRows<R>& self, Mat<const A> W, Mat<A> U, OptMat<A> P, i64 threads) {
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
    m.def("gram", [](const BoundRows<R>& self, Mat<double> G, Vec<double> first, i64 threads, bool in_double) {
        const i64 d = self.rows.d;
        require(i64(G.shape(0)) == d && i64(G.shape(1)) == d && i64(first.size()) == d,
                "G must be (columns of the data) squared, first as long as a row");
        nb::gil_scoped_release release;
        if (in_double) gram<double>(self.rows, G.data(), first.data(), threads);
        else gram<typename R::T>(self.rows, G.data(), first.data(), threads);
    }, "rows"_a, array("G"), array("first"), "threads"_a, "in_double"_a = false);
}

}  // namespace

void bind_products(nb::module_& m) {
#define VRPCA_BIND(Rows) bind_product<Rows>(m);
    VRPCA_EACH_ROWS(VRPCA_BIND)
#undef VRPCA_BIND
    bind_product<DenseRowsF32, double>(m);
    bind_product<CsrRowsF32I32, double>(m);
    bind_product<CsrRowsF32I64, double>(m);
#define VRPCA_BIND(Rows) bind_gram<Rows>(m);
    VRPCA_EACH_DENSE(VRPCA_BIND)
#undef VRPCA_BIND
}

}  // namespace vrpca
