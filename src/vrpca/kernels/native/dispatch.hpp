// Picks the instruction set at run time: DISPATCH(f(x)) calls vrpca::avx2::f(x) where the processor has AVX2 and FMA,
// vrpca::baseline::f(x) elsewhere.
#pragma once
#include <cstdlib>
#include <string>

namespace vrpca {

inline bool use_avx2() {
#ifdef VRPCA_HAVE_AVX2
    static const bool yes = [] {
        const char* forced = std::getenv("VRPCA_ISA");
        if (forced && std::string(forced) == "baseline") return false;
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
