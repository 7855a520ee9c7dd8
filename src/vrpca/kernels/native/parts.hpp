// How a kernel's work is split into parts, one for each thread.
#pragma once
#include <algorithm>
#include <vector>

#include "pool.hpp"
#include "rows.hpp"

namespace vrpca {

// The number of parts. A thread has sums of its own for all d columns. They have to be cleared first and added up
// last, so a part must be worth it: 64 dense rows, or 8 stored entries per column. There may be no columns. Waking a
// thread takes as long as some ten thousand entries do.
constexpr i64 LEAST_ENTRIES = 1 << 15;
template <class T>
i64 parts_of(const DenseRows<T>& r, i64 threads) {
    return std::max<i64>(1, std::min<i64>({threads, (r.n + 63) / 64, r.n * r.d / LEAST_ENTRIES}));
}
template <class T, class I>
i64 parts_of(const CsrRows<T, I>& r, i64 threads) {
    return std::max<i64>(1, std::min<i64>(threads, (r.indptr[r.n] - r.indptr[0]) / std::max<i64>(1, 8 * r.d)));
}

// The first row of every part, and the number of rows. Parts of dense data have the same number of rows. Parts of
// sparse data have about the same number of stored entries.
template <class T>
std::vector<i64> split(const DenseRows<T>& r, i64 parts) {
    std::vector<i64> cut;
    for (i64 p = 0; p <= parts; p++) cut.push_back(r.n * p / parts);
    return cut;
}
template <class T, class I>
std::vector<i64> split(const CsrRows<T, I>& r, i64 parts) {
    std::vector<i64> cut{0};
    for (i64 p = 1; p < parts; p++) {
        I target = I(r.indptr[0] + (r.indptr[r.n] - r.indptr[0]) / parts * p);
        cut.push_back(std::lower_bound(r.indptr, r.indptr + r.n, target) - r.indptr);
    }
    cut.push_back(r.n);
    return cut;
}

// The number of rows of the largest part.
inline i64 largest_part(const std::vector<i64>& cut) {
    i64 most = 0;
    for (size_t p = 0; p + 1 < cut.size(); p++) most = std::max(most, cut[p + 1] - cut[p]);
    return most;
}

}  // namespace vrpca
