// What the files of bindings share: array types, checks, and rows with the Python arrays they point into. Every file
// of bindings checks shapes, allocates memory, releases the GIL, and calls kernels with DISPATCH.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "dispatch.hpp"
#include "memory.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace vrpca {

template <class T> using Vec = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Mat = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using AnyMat = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;  // rows and columns any distance apart
template <class T> using Rowwise = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;  // contiguous rows, any distance apart
template <class T> using OptVec = std::optional<Vec<T>>;
template <class T> using OptMat = std::optional<Mat<T>>;

// Arguments that are arrays. They are never converted: an update of a converted copy would be lost.
inline auto array(const char* name) { return nb::arg(name).noconvert(); }
inline auto optional_array(const char* name) { return nb::arg(name).noconvert().none(); }

template <class T>
const T* data_or_null(const OptVec<const T>& v) { return v ? v->data() : nullptr; }

inline void require(bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(what);
}

// A NumPy array that owns `data`.
template <class T>
nb::object as_array(Memory<T> data, i64 size) {
    T* raw = data.release();
    nb::capsule owner(raw, [](void* p) noexcept { FreeLine()(static_cast<T*>(p)); });
    size_t shape[1] = {size_t(size)};
    return nb::cast(nb::ndarray<nb::numpy, T>(raw, 1, shape, owner));
}

// Rows together with the Python arrays they point into, and with memory that products reuse.
template <class R>
struct BoundRows {
    R rows;
    std::vector<nb::object> owners;
    std::shared_ptr<Room<typename R::T>> room = std::make_shared<Room<typename R::T>>();
    std::shared_ptr<Room<double>> totals = std::make_shared<Room<double>>();
    std::shared_ptr<Room<std::int32_t>> places = std::make_shared<Room<std::int32_t>>();
    std::shared_ptr<Room<i64>> columns = std::make_shared<Room<i64>>();
    std::shared_ptr<Room<double>> wide = std::make_shared<Room<double>>();  // where numbers are multiplied in double
};

void bind_rows(nb::module_& m);
void bind_products(nb::module_& m);
void bind_moments(nb::module_& m);
void bind_epochs(nb::module_& m);
void bind_tall(nb::module_& m);

}  // namespace vrpca
