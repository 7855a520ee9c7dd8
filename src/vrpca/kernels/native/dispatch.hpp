// Declares the kernels of every instruction set, and picks one at run time: DISPATCH(f(x)) calls vrpca::avx2::f(x) if
// the processor has AVX2 and FMA, and vrpca::baseline::f(x) otherwise.
#pragma once
#include <cstdlib>
#include <cstring>

#define VRPCA_ISA baseline
#include "kernels.hpp"
#undef VRPCA_ISA
#ifdef VRPCA_HAVE_AVX2
#define VRPCA_ISA avx2
#include "kernels.hpp"
#undef VRPCA_ISA
#endif

namespace vrpca {

// VRPCA_ISA=baseline in the environment forces the baseline.
inline bool use_avx2() {
#ifdef VRPCA_HAVE_AVX2
    static const bool yes = [] {
        const char* forced = std::getenv("VRPCA_ISA");
        if (forced && std::strcmp(forced, "baseline") == 0) return false;
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }();
    return yes;
#else
    return false;
#endif
}

}  // namespace vrpca

#ifdef VRPCA_HAVE_AVX2
#define DISPATCH(...) (vrpca::use_avx2() ? vrpca::avx2::__VA_ARGS__ : vrpca::baseline::__VA_ARGS__)
#else
#define DISPATCH(...) (vrpca::baseline::__VA_ARGS__)
#endif
