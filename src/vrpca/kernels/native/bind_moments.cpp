// Bindings of the kernels of moments.hpp.
#include <utility>

#include "binding.hpp"
#include "column_moments.hpp"

namespace vrpca {
namespace {

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
        Moments out;
        {
            nb::gil_scoped_release release;
            out = squares(self.rows, data_or_null<double>(weight), factor, threads);
        }
        return nb::make_tuple(out.total, as_array(std::move(out.M2), self.rows.d));
    }, "rows"_a, optional_array("weight"), "factor"_a, "threads"_a);
}

}  // namespace

void bind_moments(nb::module_& m) {
#define VRPCA_BIND(Rows) bind<Rows>(m);
    VRPCA_EACH_ROWS(VRPCA_BIND)
#undef VRPCA_BIND
}

}  // namespace vrpca
