// Python's view of the kernels: checks shapes, allocates scratch, releases the GIL, splits products over threads and
// picks the instruction set.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "binding.hpp"
#include "dispatch.hpp"
#include "pool.hpp"
#define VRPCA_ISA baseline
#include "kernels.hpp"
#undef VRPCA_ISA
#ifdef VRPCA_HAVE_AVX2
#define VRPCA_ISA avx2
#include "kernels.hpp"
#undef VRPCA_ISA
#endif

using namespace nb::literals;
using vrpca::i64;

namespace {

template <class T> using OptVec = std::optional<Vec<T>>;
template <class T> using OptMat = std::optional<Mat<T>>;

template <class T>
const T* data_or_null(const OptVec<const T>& v) { return v ? v->data() : nullptr; }

template <class T>
void require_rowwise(const Rowwise<const T>& P, i64 n, i64 l) {
    require(i64(P.shape(0)) == n && i64(P.shape(1)) == l, "P must be (rows of the block) x l");
    require(n == 0 || l == 1 || P.stride(1) == 1, "the rows of P must be contiguous");
}

template <class T>
std::unique_ptr<T[]> zeros(i64 size) { return std::unique_ptr<T[]>(new T[size > 0 ? size : 1]()); }

// Uninitialised, and starting with a cache line, so that small rows do not straddle two.
constexpr std::align_val_t LINE{64};
struct FreeLine {
    template <class T>
    void operator()(T* p) const { ::operator delete[](p, LINE); }
};
template <class T>
std::unique_ptr<T[], FreeLine> scratch(i64 size) {
    return std::unique_ptr<T[], FreeLine>(new (LINE) T[size > 0 ? size : 1]);
}

// Room that products leave for the next one: fresh memory costs page faults. One product at a time may use it.
template <class T>
struct Room {
    std::mutex mutex;
    std::unique_ptr<T[], FreeLine> memory;
    i64 size = 0;

    T* get(i64 wanted) {
        if (wanted > size) {
            memory = scratch<T>(wanted);
            size = wanted;
        }
        return memory.get();
    }
};

// Rows together with the Python arrays they point into.
template <class R>
struct Rows {
    R rows;
    std::vector<nb::object> owners;
    std::shared_ptr<Room<typename R::T>> room = std::make_shared<Room<typename R::T>>();
    std::shared_ptr<Room<double>> totals = std::make_shared<Room<double>>();
};

template <class R>
void attach_map(Rows<R>& r, OptVec<const typename R::T> col_scale, OptVec<const double> shift,
                OptVec<const double> row_scale, OptVec<const double> row_shift, double unit) {
    require(!col_scale || i64(col_scale->size()) == r.rows.d, "col_scale must have one entry per column");
    require(!shift || i64(shift->size()) == r.rows.d, "shift must have one entry per column");
    require(!row_scale || i64(row_scale->size()) == r.rows.n, "row_scale must have one entry per row");
    require(!row_shift || i64(row_shift->size()) == r.rows.n, "row_shift must have one entry per row");
    r.rows.map = {data_or_null<typename R::T>(col_scale), data_or_null<double>(shift),
                  data_or_null<double>(row_scale), data_or_null<double>(row_shift), unit};
    if (col_scale) r.owners.push_back(nb::cast(*col_scale));
    if (shift) r.owners.push_back(nb::cast(*shift));
    if (row_scale) r.owners.push_back(nb::cast(*row_scale));
    if (row_shift) r.owners.push_back(nb::cast(*row_shift));
}

void check_order(const Vec<const i64>& order, i64 n) {
    for (size_t t = 0; t < order.size(); t++)
        require(order.data()[t] >= 0 && order.data()[t] < n, "order holds a row number outside the block");
}

// Row numbers that split the work evenly: by rows, or by stored entries.
template <class T>
std::vector<i64> split(const vrpca::DenseRows<T>& r, i64 parts) {
    std::vector<i64> cut;
    for (i64 p = 0; p <= parts; p++) cut.push_back(r.n * p / parts);
    return cut;
}
template <class T, class I>
std::vector<i64> split(const vrpca::CsrRows<T, I>& r, i64 parts) {
    std::vector<i64> cut{0};
    for (i64 p = 1; p < parts; p++) {
        I target = I(r.indptr[0] + (r.indptr[r.n] - r.indptr[0]) / parts * p);
        cut.push_back(std::lower_bound(r.indptr, r.indptr + r.n, target) - r.indptr);
    }
    cut.push_back(r.n);
    return cut;
}

// The most rows that one part has.
i64 cut_width(const std::vector<i64>& cut) {
    i64 most = 0;
    for (size_t p = 0; p + 1 < cut.size(); p++) most = std::max(most, cut[p + 1] - cut[p]);
    return most;
}

bool on_cache_line(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; }

// Rows whose contributions are summed in T before they are added to U, sparse: enough to make the adding cheap, few
// enough to keep rounding from growing with the number of rows.
template <class T, class I>
i64 rows_per_sum(const vrpca::CsrRows<T, I>& r) {
    const i64 entries = r.indptr[r.n] - r.indptr[0];
    return std::max<i64>(16384, entries ? i64(8.0 * double(r.d) * double(r.n) / double(entries)) : r.n);
}

// U += Z^T (Z W), sparse. Rows of W and U that fill whole registers are used as they are; others are copied to where
// they do. Every thread but the last has a U of its own; the last one works on the result itself where it can.
template <class T, class I>
void product(const Rows<vrpca::CsrRows<T, I>>& self, const T* W, i64 l, T* U, T* P, i64 threads) {
    const auto& r = self.rows;
    const i64 d = r.d, ld = DISPATCH(padded(l)), per_sum = rows_per_sum(r);
    const double* m = r.map.shift;
    std::vector<double> mW(m ? l : 0);
    for (i64 j = 0; m && j < d; j++)
        for (i64 c = 0; c < l; c++) mW[c] += m[j] * double(W[j * l + c]);
    const double* mW_ = m ? mW.data() : nullptr;
    const bool few = r.indptr[r.n] - r.indptr[0] < 2 * d;  // copies would cost more than they save
    const bool one_sum = few || r.n <= per_sum * threads;
    const bool aligned = few || ((l <= 2 || l % 4 == 0) && on_cache_line(W) && on_cache_line(U));
    const i64 entries = r.indptr[r.n] - r.indptr[0];  // a thread's own U has d rows: it must have more work than that
    const i64 parts = few ? 1 : std::max<i64>(1, std::min<i64>(threads, entries / d)), width = aligned ? l : ld;
    const i64 copies = aligned && one_sum ? parts - 1 : parts;
    auto cut = split(r, parts);
    auto Wp = scratch<T>(aligned ? 0 : d * ld);
    std::unique_lock<std::mutex> alone(self.room->mutex, std::try_to_lock);
    auto own = scratch<T>(alone ? 0 : copies * d * width);
    T* partial = alone ? self.room->get(copies * d * width) : own.get();
    auto tail = zeros<double>(parts * l), none = zeros<double>(l);
    for (i64 j = 0; !aligned && j < d; j++) {
        for (i64 c = 0; c < l; c++) Wp[j * ld + c] = W[j * l + c];
        for (i64 c = l; c < ld; c++) Wp[j * ld + c] = 0;
    }
    const i64 longest = cut_width(cut), sums = one_sum ? 1 : (longest + per_sum - 1) / per_sum;
    for (i64 s = 0; s < sums; s++) {
        vrpca::in_parallel(parts, [&](i64 p) {
            T* mine = p < copies ? partial + p * d * width : U;
            if (p < copies) std::fill(mine, mine + d * width, T(0));
            const i64 lo = one_sum ? cut[p] : std::min(cut[p + 1], cut[p] + s * per_sum);
            const i64 hi = one_sum ? cut[p + 1] : std::min(cut[p + 1], lo + per_sum);
            DISPATCH(product(r, lo, hi, aligned ? W : Wp.get(), mW_, l, width, mine, P, tail.get() + p * l));
        });
        const bool last = s + 1 == sums;
        for (i64 p = 1; last && p < parts; p++)
            for (i64 c = 0; c < l; c++) tail[c] += tail[p * l + c];
        if (copies || (m && last))
            vrpca::in_parallel(parts, [&](i64 q) {
                DISPATCH(add_partials(partial, copies, d, d * q / parts, d * (q + 1) / parts, l, width,
                                      last ? m : nullptr, last ? tail.get() : none.get(), U));
            });
    }
}

// Threads that share the rows evenly where every one of them has d columns to look after.
template <class T>
i64 threads_for(const vrpca::DenseRows<T>& r, i64 threads) {
    return std::max<i64>(1, std::min<i64>(threads, (r.n + 63) / 64));
}
template <class T, class I>
i64 threads_for(const vrpca::CsrRows<T, I>& r, i64 threads) {
    return std::max<i64>(1, std::min<i64>(threads, (r.indptr[r.n] - r.indptr[0]) / (8 * r.d)));
}

// The same, dense: W and U are turned column-major, U is summed in double.
template <class T>
void narrow_product(const Rows<vrpca::DenseRows<T>>& self, const T* W, i64 l, T* U, T* P, i64 threads) {
    const auto& r = self.rows;
    const i64 d = r.d, parts = threads_for(r, threads);
    auto cut = split(r, parts);
    auto Wt = scratch<T>(d * l);
    for (i64 j = 0; j < d; j++)
        for (i64 c = 0; c < l; c++) Wt[c * d + j] = W[j * l + c];
    auto partial = zeros<double>(parts * d * l);
    i64 tile = DISPATCH(TILE) * d;
    auto tiles = scratch<T>(parts * tile);
    vrpca::in_parallel(parts, [&](i64 p) {
        DISPATCH(product(r, cut[p], cut[p + 1], Wt.get(), l, partial.get() + p * d * l, P, tiles.get() + p * tile));
    });
    for (i64 j = 0; j < d; j++)
        for (i64 c = 0; c < l; c++) {
            double u = U[j * l + c];
            for (i64 p = 0; p < parts; p++) u += partial[(p * l + c) * d + j];
            U[j * l + c] = T(u);
        }
}

// U += Z^T (Z W), dense, from three columns on: by panels of columns, so that an entry of X is loaded once for all of
// them.
template <class T>
void wide_product(const Rows<vrpca::DenseRows<T>>& self, const T* W, i64 l, T* U, T* P, i64 threads) {
    const auto& r = self.rows;
    const i64 d = r.d, parts = threads_for(r, threads), wide = DISPATCH(WIDE), size = (l + wide - 1) / wide * wide * d;
    auto cut = split(r, parts);
    const i64 tile = DISPATCH(TILE) * d;
    std::unique_lock<std::mutex> alone(self.room->mutex, std::try_to_lock);
    auto own = scratch<T>(alone ? 0 : size + parts * (size + tile));
    auto own_totals = scratch<double>(alone ? 0 : parts * size);
    T* panels = alone ? self.room->get(size + parts * (size + tile)) : own.get();
    double* totals = alone ? self.totals->get(parts * size) : own_totals.get();
    std::fill(panels, panels + size, T(0));
    for (i64 j = 0; j < d; j++)
        for (i64 c = 0; c < l; c++) panels[(c / wide * d + j) * wide + c % wide] = W[j * l + c];
    vrpca::in_parallel(parts, [&](i64 p) {
        T* sums = panels + size + p * (size + tile);
        std::fill(sums, sums + size, T(0));
        std::fill(totals + p * size, totals + (p + 1) * size, 0.0);
        DISPATCH(wide_product(r, cut[p], cut[p + 1], panels, l, sums, totals + p * size, P, sums + size));
    });
    for (i64 j = 0; j < d; j++)
        for (i64 c = 0; c < l; c++) {
            double u = U[j * l + c];
            for (i64 p = 0; p < parts; p++) u += totals[p * size + (c / wide * d + j) * wide + c % wide];
            U[j * l + c] = T(u);
        }
}

template <class T>
void product(const Rows<vrpca::DenseRows<T>>& self, const T* W, i64 l, T* U, T* P, i64 threads) {
    if (l <= 2) narrow_product(self, W, l, U, P, threads);
    else wide_product(self, W, l, U, P, threads);
}

struct Moments {
    double total;
    std::unique_ptr<double[]> mean, M2;
};

// Chan, Golub and LeVeque's update: b's moments into a's.
void merge(Moments& a, const Moments& b, i64 d) {
    double total = a.total + b.total;
    if (b.total == 0) {  // what is not finite shows all the same
        for (i64 j = 0; j < d; j++) a.M2[j] += b.M2[j];
        return;
    }
    for (i64 j = 0; j < d; j++) {
        double delta = b.mean[j] - a.mean[j];
        a.M2[j] += b.M2[j] + delta * delta * (a.total * (b.total / total));
        a.mean[j] += delta * (b.total / total);
    }
    a.total = total;
}

template <class T>
Moments moments(const vrpca::DenseRows<T>& r, const double* weight, double factor, i64 threads) {
    i64 parts = threads_for(r, threads);
    auto cut = split(r, parts);
    std::vector<Moments> part(parts);
    for (auto& p : part) p = {0, zeros<double>(r.d), zeros<double>(r.d)};
    vrpca::in_parallel(parts, [&](i64 p) {
        DISPATCH(moments(r, cut[p], cut[p + 1], weight, factor, part[p].mean.get(), part[p].M2.get(), &part[p].total));
    });
    for (i64 p = 1; p < parts; p++) merge(part[0], part[p], r.d);
    return std::move(part[0]);
}

template <class T, class I>
Moments moments(const vrpca::CsrRows<T, I>& r, const double* weight, double factor, i64 threads) {
    i64 parts = threads_for(r, threads);
    auto cut = split(r, parts);
    std::vector<Moments> part(parts);
    for (auto& p : part) p = {0, buffer(r.d), buffer(r.d)};
    auto cells = scratch<double>(parts * 4 * r.d);
    vrpca::in_parallel(parts, [&](i64 p) {
        DISPATCH(moments(r, cut[p], cut[p + 1], weight, factor, part[p].mean.get(), part[p].M2.get(),
                         cells.get() + p * 4 * r.d, &part[p].total));
    });
    for (i64 p = 1; p < parts; p++) merge(part[0], part[p], r.d);
    return std::move(part[0]);
}

template <class R>
std::pair<double, std::unique_ptr<double[]>> squares(const R& r, const double* weight, double factor, i64 threads) {
    const i64 parts = threads_for(r, threads), d = r.d;
    auto cut = split(r, parts);
    auto sums = zeros<double>(parts * d);
    std::vector<double> total(parts);
    vrpca::in_parallel(parts, [&](i64 p) {
        total[p] = DISPATCH(squares(r, cut[p], cut[p + 1], weight, factor, sums.get() + p * d));
    });
    for (i64 p = 1; p < parts; p++) {
        total[0] += total[p];
        for (i64 j = 0; j < d; j++) sums[j] += sums[p * d + j];
    }
    return {total[0], std::move(sums)};
}

// G += Z^T Z and first += Z^T r, with the row scales r.
template <class T>
void gram(const vrpca::DenseRows<T>& r, double* G, double* first, i64 threads) {
    const i64 parts = threads_for(r, threads), d = r.d;
    const i64 side = DISPATCH(gram_side<T>(d)), room = DISPATCH(gram_room<T>(d));
    auto cut = split(r, parts);
    auto sums = zeros<double>(parts * side * side);
    auto strips = scratch<T>(parts * room);
    vrpca::in_parallel(parts, [&](i64 p) {
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

template <class T, class Free>
nb::object as_array(std::unique_ptr<T[], Free> data, i64 size) {
    T* raw = data.release();
    nb::capsule owner(raw, [](void* p) noexcept { Free()(static_cast<T*>(p)); });
    size_t shape[1] = {size_t(size)};
    return nb::cast(nb::ndarray<nb::numpy, T>(raw, 1, shape, owner));
}

template <class R>
void bind_kernels(nb::module_& m) {
    using T = typename R::T;
    using Self = Rows<R>;

    m.def("product", [](const Self& self, Mat<const T> W, Mat<T> U, OptMat<T> P, i64 threads) {
        i64 l = W.shape(1);
        require(i64(W.shape(0)) == self.rows.d && i64(U.shape(0)) == self.rows.d && i64(U.shape(1)) == l,
                "W and U must be (columns of the data) x l");
        require(!P || (i64(P->shape(0)) == self.rows.n && i64(P->shape(1)) == l), "P must be (rows of the block) x l");
        nb::gil_scoped_release release;
        product(self, W.data(), l, U.data(), P ? P->data() : nullptr, threads);
    }, "rows"_a, nb::arg("W").noconvert(), nb::arg("U").noconvert(), nb::arg("P").noconvert().none(), "threads"_a);

    m.def("row_norms", [](const Self& self, Vec<double> norms) {
        require(i64(norms.size()) == self.rows.n, "norms must have one entry per row");
        nb::gil_scoped_release release;
        auto row = scratch<T>(DISPATCH(row_size(self.rows)));
        DISPATCH(row_norms(self.rows, norms.data(), row.get()));
    }, "rows"_a, nb::arg("norms").noconvert());

    m.def("moments", [](const Self& self, OptVec<const double> weight, double factor, i64 threads) {
        require(!weight || i64(weight->size()) == self.rows.n, "weight must have one entry per row");
        Moments out;
        {
            nb::gil_scoped_release release;
            out = moments(self.rows, data_or_null<double>(weight), factor, threads);
        }
        return nb::make_tuple(out.total, as_array(std::move(out.mean), self.rows.d),
                              as_array(std::move(out.M2), self.rows.d));
    }, "rows"_a, nb::arg("weight").noconvert().none(), "factor"_a, "threads"_a);

    m.def("squares", [](const Self& self, OptVec<const double> weight, double factor, i64 threads) {
        require(!weight || i64(weight->size()) == self.rows.n, "weight must have one entry per row");
        std::pair<double, std::unique_ptr<double[]>> out;
        {
            nb::gil_scoped_release release;
            out = squares(self.rows, data_or_null<double>(weight), factor, threads);
        }
        return nb::make_tuple(out.first, as_array(std::move(out.second), self.rows.d));
    }, "rows"_a, nb::arg("weight").noconvert().none(), "factor"_a, "threads"_a);

    m.def("vr_vector", [](const Self& self, Vec<T> w, Vec<const T> w0, Vec<const T> u, Vec<const T> p,
                          OptMat<const T> V, OptMat<const T> Q, Vec<const i64> order, double eta,
                          OptVec<const double> rho) {
        i64 d = self.rows.d, n = self.rows.n, j = V ? V->shape(1) : 0;
        require(i64(w.size()) == d && i64(w0.size()) == d && i64(u.size()) == d, "w, w0 and u must have d entries");
        require(i64(p.size()) == n && (!rho || i64(rho->size()) == n), "p and rho must have one entry per row");
        require(bool(V) == bool(Q), "V and Q go together");
        require(!V || (i64(V->shape(0)) == d && i64(Q->shape(0)) == n && i64(Q->shape(1)) == j),
                "V must be d x j and Q (rows of the block) x j");
        check_order(order, n);
        nb::gil_scoped_release release;
        auto panel = scratch<T>(DISPATCH(panel_size(self.rows, 3)));
        auto row = scratch<T>(2 * DISPATCH(row_size(self.rows)));
        auto f = scratch<double>(j);
        DISPATCH(vr_vector(self.rows, w.data(), w0.data(), u.data(), p.data(), V ? V->data() : nullptr,
                           Q ? Q->data() : nullptr, j, order.data(), i64(order.size()), eta,
                           data_or_null<double>(rho), panel.get(), row.get(), f.get()));
    }, "rows"_a, nb::arg("w").noconvert(), nb::arg("w0").noconvert(), nb::arg("u").noconvert(),
       nb::arg("p").noconvert(), nb::arg("V").noconvert().none(), nb::arg("Q").noconvert().none(),
       nb::arg("order").noconvert(), "eta"_a, nb::arg("rho").noconvert().none());

    m.def("vr_panel", [](const Self& self, Mat<const T> U) {
        i64 l = U.shape(1), size = DISPATCH(block_panel_size(self.rows, l));
        require(i64(U.shape(0)) == self.rows.d, "U must be d x l");
        auto panel = scratch<T>(size);
        {
            nb::gil_scoped_release release;
            DISPATCH(load_panel(self.rows, U.data(), l, panel.get()));
        }
        return as_array(std::move(panel), size);
    }, "rows"_a, nb::arg("U").noconvert());

    m.def("vr_block", [](const Self& self, Mat<T> W, Mat<const T> W0, Vec<T> panel, Rowwise<const T> P,
                         Vec<const double> theta, Vec<const i64> order, double eta, OptVec<const double> rho) {
        i64 d = self.rows.d, n = self.rows.n, l = W.shape(1);
        require(i64(W.shape(0)) == d && i64(W0.shape(0)) == d && i64(W0.shape(1)) == l, "W and W0 must be d x l");
        require(i64(panel.size()) == DISPATCH(block_panel_size(self.rows, l)), "panel must be vr_panel(rows, U)");
        require_rowwise(P, n, l);
        require(i64(theta.size()) == l && (!rho || i64(rho->size()) == n), "theta must have l entries, rho n");
        check_order(order, n);
        nb::gil_scoped_release release;
        auto row = scratch<T>(2 * DISPATCH(row_size(self.rows)));
        auto small = scratch<double>(DISPATCH(small_size(l)));
        DISPATCH(vr_block(self.rows, W.data(), W0.data(), panel.data(), P.data(), P.stride(0), theta.data(), l,
                          order.data(), i64(order.size()), eta, data_or_null<double>(rho), row.get(), small.get()));
    }, "rows"_a, nb::arg("W").noconvert(), nb::arg("W0").noconvert(), nb::arg("panel").noconvert(),
       nb::arg("P").noconvert(), nb::arg("theta").noconvert(), nb::arg("order").noconvert(), "eta"_a,
       nb::arg("rho").noconvert().none());

    m.def("vr_gram_schmidt", [](const Self& self, Mat<T> W, Mat<const T> U, Rowwise<const T> P, Vec<const i64> order,
                                double eta, OptVec<const double> rho) {
        i64 d = self.rows.d, n = self.rows.n, l = W.shape(1);
        require(i64(W.shape(0)) == d && i64(U.shape(0)) == d && i64(U.shape(1)) == l, "W and U must be d x l");
        require_rowwise(P, n, l);
        require(!rho || i64(rho->size()) == n, "rho must have one entry per row");
        check_order(order, n);
        nb::gil_scoped_release release;
        auto Wt = scratch<T>(d * l), Ut = scratch<T>(d * l), row = scratch<T>(d);
        for (i64 j = 0; j < d; j++)
            for (i64 c = 0; c < l; c++) {
                Wt[c * d + j] = W.data()[j * l + c];
                Ut[c * d + j] = U.data()[j * l + c];
            }
        DISPATCH(vr_gram_schmidt(self.rows, Wt.get(), Ut.get(), P.data(), P.stride(0), l, order.data(), i64(order.size()), eta,
                                 data_or_null<double>(rho), row.get()));
        for (i64 j = 0; j < d; j++)
            for (i64 c = 0; c < l; c++) W.data()[j * l + c] = Wt[c * d + j];
    }, "rows"_a, nb::arg("W").noconvert(), nb::arg("U").noconvert(), nb::arg("P").noconvert(),
       nb::arg("order").noconvert(), "eta"_a, nb::arg("rho").noconvert().none());

    m.def("oja_block", [](const Self& self, Mat<T> W, Vec<const i64> order, Vec<const double> eta,
                          OptVec<const double> rho) {
        i64 l = W.shape(1);
        require(i64(W.shape(0)) == self.rows.d, "W must be d x l");
        require(eta.size() == order.size(), "eta and order must have the same length");
        require(!rho || i64(rho->size()) == self.rows.n, "rho must have one entry per row");
        check_order(order, self.rows.n);
        nb::gil_scoped_release release;
        auto panel = scratch<T>(DISPATCH(panel_size(self.rows, l + 1)));
        auto row = scratch<T>(DISPATCH(row_size(self.rows)));
        auto small = scratch<double>(DISPATCH(small_size(l)));
        DISPATCH(oja_block(self.rows, W.data(), l, order.data(), i64(order.size()), eta.data(),
                           data_or_null<double>(rho), panel.get(), row.get(), small.get()));
    }, "rows"_a, nb::arg("W").noconvert(), nb::arg("order").noconvert(), nb::arg("eta").noconvert(),
       nb::arg("rho").noconvert().none());
}

// Whether all of them lie in 0..limit-1: the sign bit shows up in k or in limit - 1 - k where one does not.
template <class I>
bool all_below(const I* index, i64 count, i64 limit) {
    using U = std::make_unsigned_t<I>;
    const U last = U(std::min<i64>(limit - 1, std::numeric_limits<I>::max()));
    U signs = 0;
#pragma omp simd reduction(| : signs)
    for (i64 k = 0; k < count; k++) signs |= U(index[k]) | (last - U(index[k]));
    return count == 0 || (limit > 0 && I(signs) >= 0);
}

template <class T>
void bind_dense(nb::module_& m, const char* name) {
    using R = vrpca::DenseRows<T>;
    nb::class_<Rows<R>>(m, name);
    m.def("dense_rows", [](Mat<const T> X, OptVec<const T> col_scale, OptVec<const double> shift,
                           OptVec<const double> row_scale, OptVec<const double> row_shift, double unit) {
        Rows<R> r{{i64(X.shape(0)), i64(X.shape(1)), X.data(), {}}, {nb::cast(X)}};
        attach_map(r, col_scale, shift, row_scale, row_shift, unit);
        return r;
    }, nb::arg("X").noconvert(), nb::arg("col_scale").noconvert().none(), nb::arg("shift").noconvert().none(),
       nb::arg("row_scale").noconvert().none(), nb::arg("row_shift").noconvert().none(), "unit"_a);
    bind_kernels<R>(m);
    m.def("gram", [](const Rows<R>& self, Mat<double> G, Vec<double> first, i64 threads) {
        const i64 d = self.rows.d;
        require(i64(G.shape(0)) == d && i64(G.shape(1)) == d && i64(first.size()) == d,
                "G must be (columns of the data) squared, first as long as a row");
        nb::gil_scoped_release release;
        gram(self.rows, G.data(), first.data(), threads);
    }, "rows"_a, nb::arg("G").noconvert(), nb::arg("first").noconvert(), "threads"_a);
}

template <class T, class I>
void bind_csr(nb::module_& m, const char* name) {
    using R = vrpca::CsrRows<T, I>;
    nb::class_<Rows<R>>(m, name);
    m.def("csr_rows", [](Vec<const I> indptr, Vec<const I> indices, Vec<const T> values, i64 columns,
                         OptVec<const T> col_scale, OptVec<const double> shift, OptVec<const double> row_scale,
                         OptVec<const double> row_shift, double unit) {
        i64 n = i64(indptr.size()) - 1;
        require(n >= 0 && indices.size() == values.size(), "indices and data must have the same length");
        for (i64 i = 0; i < n; i++) require(indptr.data()[i] <= indptr.data()[i + 1], "indptr must not decrease");
        require(indptr.data()[0] >= 0 && i64(indptr.data()[n]) <= i64(indices.size()), "indptr points past the data");
        require(all_below(indices.data() + indptr.data()[0], i64(indptr.data()[n] - indptr.data()[0]), columns),
                "a column index is out of range");
        Rows<R> r{{n, columns, indptr.data(), indices.data(), values.data(), {}},
                  {nb::cast(indptr), nb::cast(indices), nb::cast(values)}};
        attach_map(r, col_scale, shift, row_scale, row_shift, unit);
        return r;
    }, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("values").noconvert(), "columns"_a,
       nb::arg("col_scale").noconvert().none(), nb::arg("shift").noconvert().none(),
       nb::arg("row_scale").noconvert().none(), nb::arg("row_shift").noconvert().none(), "unit"_a);
    bind_kernels<R>(m);
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "Compiled kernels of vrpca; their specification is vrpca.kernels.reference.";
    m.def("instruction_set", [] { return std::string(vrpca::use_avx2() ? "avx2" : "baseline"); },
          "The instruction set the kernels run on; VRPCA_ISA=baseline in the environment forces the plain one.");
    bind_tall(m);
    bind_dense<float>(m, "DenseRowsF32");
    bind_dense<double>(m, "DenseRowsF64");
    bind_csr<float, std::int32_t>(m, "CsrRowsF32I32");
    bind_csr<float, std::int64_t>(m, "CsrRowsF32I64");
    bind_csr<double, std::int32_t>(m, "CsrRowsF64I32");
    bind_csr<double, std::int64_t>(m, "CsrRowsF64I64");
}
