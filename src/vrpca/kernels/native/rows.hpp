// Rows of the data as the kernels see them: z_i = a_i (x_i * s - b_i m). They are never stored.
//
// a is the row scale times one unit, s the column scale, b the row shift and m the shift vector. A null pointer
// stands for ones; for m it stands for no shift. This file has plain data only; rows.inl has the arithmetic. A function
// here would be compiled for every instruction set, and the linker would keep one copy for all of them.
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
    bool late = false;  // dense rows: whether products apply the column scale and the shift to W and U, not to X
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

// All types of rows. Python knows them by these names.
using DenseRowsF32 = DenseRows<float>;
using DenseRowsF64 = DenseRows<double>;
using CsrRowsF32I32 = CsrRows<float, std::int32_t>;
using CsrRowsF32I64 = CsrRows<float, std::int64_t>;
using CsrRowsF64I32 = CsrRows<double, std::int32_t>;
using CsrRowsF64I64 = CsrRows<double, std::int64_t>;

}  // namespace vrpca

// DO(name) for every type of rows. Kernels are instantiated and bound with these lists.
#define VRPCA_EACH_DENSE(DO) DO(DenseRowsF32) DO(DenseRowsF64)
#define VRPCA_EACH_CSR(DO) DO(CsrRowsF32I32) DO(CsrRowsF32I64) DO(CsrRowsF64I32) DO(CsrRowsF64I64)
#define VRPCA_EACH_ROWS(DO) VRPCA_EACH_DENSE(DO) VRPCA_EACH_CSR(DO)
