// Rows of the data as the kernels see them: z_i = a_i (x_i * s - b_i m), never stored.
//
// a is the row scale times one unit, s the column scale, b the row shift and m the shift vector; an absent array
// stands for ones (for m: no shift). This file holds plain data only; the arithmetic is in kernels.inl.
#pragma once
#include <cstdint>

namespace vrpca {

using i64 = std::int64_t;

template <class T>
struct RowMap {
    const T* col_scale = nullptr;
    const double* shift = nullptr;
    const double* row_scale = nullptr;
    const double* row_shift = nullptr;
    double unit = 1;

    double scale(i64 i) const { return row_scale ? row_scale[i] : 1.0; }
    double a(i64 i) const { return unit * scale(i); }
    double b(i64 i) const { return row_shift ? row_shift[i] : 1.0; }
};

template <class T_>
struct DenseRows {
    using T = T_;
    i64 n, d;
    const T* X;
    RowMap<T> map;
};

template <class T_, class I_>
struct CsrRows {
    using T = T_;
    using I = I_;
    i64 n, d;
    const I* indptr;
    const I* indices;
    const T* data;
    RowMap<T> map;
};

}  // namespace vrpca
