// What the bindings share: array types that never convert (an update of a converted copy would be lost), checks, room.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <stdexcept>

namespace nb = nanobind;

template <class T> using Vec = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Mat = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Rowwise = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;  // rows contiguous, any distance apart

inline void require(bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(what);
}

// Room for so many numbers, at least one, that are not set.
inline std::unique_ptr<double[]> buffer(std::int64_t size) {
    return std::unique_ptr<double[]>(new double[size > 0 ? size : 1]);
}

void bind_tall(nb::module_& m);
