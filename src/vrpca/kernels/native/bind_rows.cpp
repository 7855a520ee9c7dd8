// Rows for Python: dense_rows and csr_rows make them from arrays.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "binding.hpp"

namespace vrpca {
namespace {

template <class R>
void attach_map(BoundRows<R>& r, const OptVec<const typename R::T>& col_scale, const OptVec<const double>& shift,
                const OptVec<const double>& row_scale, const OptVec<const double>& row_shift, double unit) {
    require(!col_scale || i64(col_scale->size()) == r.rows.d, "col_scale must have one entry per column");
    require(!shift || i64(shift->size()) == r.rows.d, "shift must have one entry per column");
    require(!row_scale || i64(row_scale->size()) == r.rows.n, "row_scale must have one entry per row");
    require(!row_shift || i64(row_shift->size()) == r.rows.n, "row_shift must have one entry per row");
    r.rows.map = {data_or_null<typename R::T>(col_scale), data_or_null<double>(shift),
                  data_or_null<double>(row_scale), data_or_null<double>(row_shift), unit, false};
    if (col_scale) r.owners.push_back(nb::cast(*col_scale));
    if (shift) r.owners.push_back(nb::cast(*shift));
    if (row_scale) r.owners.push_back(nb::cast(*row_scale));
    if (row_shift) r.owners.push_back(nb::cast(*row_shift));
}

template <class R>
void bind_dense(nb::module_& m, const char* name) {
    using T = typename R::T;
    nb::class_<BoundRows<R>>(m, name);
    m.def("dense_rows", [](Mat<const T> X, OptVec<const T> col_scale, OptVec<const double> shift,
                           OptVec<const double> row_scale, OptVec<const double> row_shift, double unit, bool late) {
        BoundRows<R> r{{i64(X.shape(0)), i64(X.shape(1)), X.data(), {}}, {nb::cast(X)}};
        attach_map(r, col_scale, shift, row_scale, row_shift, unit);
        r.rows.map.late = late;
        return r;
    }, array("X"), optional_array("col_scale"), optional_array("shift"), optional_array("row_scale"),
       optional_array("row_shift"), "unit"_a, "late"_a = false);
}

// Whether all indices lie in 0..limit-1. If one does not, the sign bit is set in the index or in limit - 1 - index.
// The loop has no branch, so that it takes little time.
template <class I>
bool all_below(const I* index, i64 count, i64 limit) {
    using U = std::make_unsigned_t<I>;
    const U last = U(std::min<i64>(limit - 1, std::numeric_limits<I>::max()));
    U signs = 0;
#pragma omp simd reduction(| : signs)
    for (i64 k = 0; k < count; k++) signs |= U(index[k]) | (last - U(index[k]));
    return count == 0 || (limit > 0 && I(signs) >= 0);
}

template <class R>
void bind_csr(nb::module_& m, const char* name) {
    using T = typename R::T;
    using I = typename R::I;
    nb::class_<BoundRows<R>>(m, name);
    m.def("csr_rows", [](Vec<const I> indptr, Vec<const I> indices, Vec<const T> values, i64 columns,
                         OptVec<const T> col_scale, OptVec<const double> shift, OptVec<const double> row_scale,
                         OptVec<const double> row_shift, double unit) {
        i64 n = i64(indptr.size()) - 1;
        require(columns >= 0, "the number of columns must not be negative");
        require(n >= 0 && indices.size() == values.size(), "indices and data must have the same length");
        for (i64 i = 0; i < n; i++) require(indptr.data()[i] <= indptr.data()[i + 1], "indptr must not decrease");
        require(indptr.data()[0] >= 0 && i64(indptr.data()[n]) <= i64(indices.size()), "indptr points past the data");
        require(all_below(indices.data() + indptr.data()[0], i64(indptr.data()[n] - indptr.data()[0]), columns),
                "a column index is out of range");
        BoundRows<R> r{{n, columns, indptr.data(), indices.data(), values.data(), {}},
                       {nb::cast(indptr), nb::cast(indices), nb::cast(values)}};
        attach_map(r, col_scale, shift, row_scale, row_shift, unit);
        return r;
    }, array("indptr"), array("indices"), array("values"), "columns"_a, optional_array("col_scale"),
       optional_array("shift"), optional_array("row_scale"), optional_array("row_shift"), "unit"_a);
}

// Which columns occur, and columns by other numbers.
template <class I>
void bind_indices(nb::module_& m) {
    m.def("occurring", [](Vec<const I> indices, Vec<bool> used) {
        const i64 count = indices.size();
        const I* index = indices.data();
        bool* there = used.data();
        nb::gil_scoped_release release;
        require(all_below(index, count, i64(used.size())), "a column index is out of range");
        for (i64 k = 0; k < count; k++) there[index[k]] = true;
    }, array("indices"), array("used"));

    m.def("renumbered", [](Vec<const I> indices, Vec<const I> numbers, Vec<I> out) {
        const i64 count = indices.size();
        const I *index = indices.data(), *number = numbers.data();
        I* other = out.data();
        require(i64(out.size()) == count, "out must be as long as indices");
        nb::gil_scoped_release release;
        require(all_below(index, count, i64(numbers.size())), "a column index is out of range");
        for (i64 k = 0; k < count; k++) other[k] = number[index[k]];
    }, array("indices"), array("numbers"), array("out"));
}

}  // namespace

void bind_rows(nb::module_& m) {
    bind_indices<std::int32_t>(m);
    bind_indices<std::int64_t>(m);
#define VRPCA_BIND(Rows) bind_dense<Rows>(m, #Rows);
    VRPCA_EACH_DENSE(VRPCA_BIND)
#undef VRPCA_BIND
#define VRPCA_BIND(Rows) bind_csr<Rows>(m, #Rows);
    VRPCA_EACH_CSR(VRPCA_BIND)
#undef VRPCA_BIND
}

}  // namespace vrpca
