// Moments of the columns on several threads. The rows are split among them, and every thread computes the moments of
// its rows. They are merged in order, so that a result depends only on the number of threads.
#pragma once
#include <utility>
#include <vector>

#include "dispatch.hpp"
#include "memory.hpp"
#include "parts.hpp"

namespace vrpca {

struct Moments {
    double total = 0;
    Memory<double> mean, M2;
};

// Merges the moments b into a, by the formula of Chan, Golub and LeVeque.
inline void merge(Moments& a, const Moments& b, i64 d) {
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

// Moments about zero: means are zero, and M2 has the squares.
template <class R>
Moments squares(const R& r, const double* weight, double factor, i64 threads) {
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
    return {total[0], zeros<double>(d), std::move(sums)};
}

}  // namespace vrpca
