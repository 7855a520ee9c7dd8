// Bindings of the kernels of moments.hpp. The rows are split among threads, and every thread computes the statistics
// of its rows. They are merged in order, so that a result depends only on the number of threads.
#include <utility>
#include <vector>

#include "binding.hpp"
#include "parts.hpp"

namespace vrpca {
namespace {

struct Moments {
    double total = 0;
    Memory<double> mean, M2;
};

// Merges the moments b into a, by the formula of Chan, Golub and LeVeque.
void merge(Moments& a, const Moments& b, i64 d) {
    double total = a.total + b.total;
    if (b.total == 0) {  // M2 of rows without weight is zero, or nan if an entry is not finite
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

template <class R>
Moments moments(const R& r, const double* weight, double factor, i64 threads) {
    const i64 parts = parts_of(r, threads), room = DISPATCH(cells_size(r));
    const auto cut = split(r, parts);
    const auto cells = scratch<double>(parts * room);
    std::vector<Moments> part(parts);
    for (auto& p : part) p = {0, scratch<double>(r.d), scratch<double>(r.d)};
    in_parallel(parts, [&](i64 p) {
        DISPATCH(moments(r, cut[p], cut[p + 1], weight, factor, part[p].mean.get(), part[p].M2.get(),
                         cells.get() + p * room, &part[p].total));
    });
    for (i64 p = 1; p < parts; p++) merge(part[0], part[p], r.d);
    return std::move(part[0]);
}

struct Squares {
    double total = 0;
    Memory<double> sum;
};

template <class R>
Squares squares(const R& r, const double* weight, double factor, i64 threads) {
    const i64 parts = parts_of(r, threads), d = r.d;
    const auto cut = split(r, parts);
    auto sums = zeros<double>(parts * d);
    std::vector<double> total(parts);
    in_parallel(parts, [&](i64 p) {
        total[p] = DISPATCH(squares(r, cut[p], cut[p + 1], weight, factor, sums.get() + p * d));
    });
    for (i64 p = 1; p < parts; p++) {
        total[0] += total[p];
        for (i64 j = 0; j < d; j++) sums[j] += sums[p * d + j];
    }
    return {total[0], std::move(sums)};
}

template <class R>
void bind(nb::module_& m) {
    using T = typename R::T;
    using Self = BoundRows<R>;

    m.def("row_norms", [](const Self& self, Vec<double> norms) {
        require(i64(norms.size()) == self.rows.n, "norms must have one entry per row");
        nb::gil_scoped_release release;
        auto row = scratch<T>(DISPATCH(row_size(self.rows)));
        DISPATCH(row_norms(self.rows, norms.data(), row.get()));
    }, "rows"_a, array("norms"));

    m.def("moments", [](const Self& self, OptVec<const double> weight, double factor, i64 threads) {
        require(!weight || i64(weight->size()) == self.rows.n, "weight must have one entry per row");
        Moments out;
        {
            nb::gil_scoped_release release;
            out = moments(self.rows, data_or_null<double>(weight), factor, threads);
        }
        return nb::make_tuple(out.total, as_array(std::move(out.mean), self.rows.d),
                              as_array(std::move(out.M2), self.rows.d));
    }, "rows"_a, optional_array("weight"), "factor"_a, "threads"_a);

    m.def("squares", [](const Self& self, OptVec<const double> weight, double factor, i64 threads) {
        require(!weight || i64(weight->size()) == self.rows.n, "weight must have one entry per row");
        Squares out;
        {
            nb::gil_scoped_release release;
            out = squares(self.rows, data_or_null<double>(weight), factor, threads);
        }
        return nb::make_tuple(out.total, as_array(std::move(out.sum), self.rows.d));
    }, "rows"_a, optional_array("weight"), "factor"_a, "threads"_a);
}

}  // namespace

void bind_moments(nb::module_& m) {
#define VRPCA_BIND(Rows) bind<Rows>(m);
    VRPCA_EACH_ROWS(VRPCA_BIND)
#undef VRPCA_BIND
}

}  // namespace vrpca
