// What is summed up over each column of dense rows. Plain data only, like rows.hpp.
#pragma once
#include "rows.hpp"

namespace vrpca {

// The sums of factor * (x - shift), and of its squares, both weighted. Without a shift, `sum` is null.
template <class T>
struct ColumnSums {
    const double* weight;  // of each row; null stands for ones
    double factor;
    const T* shift;  // a row, or null for zeros
    double* sum;
    double* squares;
    double total = 0;  // the weight of the rows that were added
};

}  // namespace vrpca
