// Declares the kernels of every instruction set, and picks one at run time: DISPATCH(f(x)) calls vrpca::avx512::f(x),
// vrpca::avx2::f(x) or vrpca::baseline::f(x), the first of them that was compiled and that the processor can run.
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
#ifdef VRPCA_HAVE_AVX512
#define VRPCA_ISA avx512
#include "kernels.hpp"
#undef VRPCA_ISA
#endif

namespace vrpca {

enum InstructionSet { BASELINE, AVX2, AVX512 };
constexpr const char* INSTRUCTION_SETS[] = {"baseline", "avx2", "avx512"};

// The best instruction set that was compiled and that the processor can run.
inline InstructionSet best_instruction_set() {
#ifdef VRPCA_HAVE_AVX2
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return BASELINE;
#ifdef VRPCA_HAVE_AVX512
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
        return AVX512;
#endif
    return AVX2;
#else
    return BASELINE;
#endif
}

// The one that the kernels run on. The environment variable VRPCA_ISA may name a lesser one.
inline InstructionSet instruction_set() {
    static const InstructionSet chosen = [] {
        const InstructionSet best = best_instruction_set();
        const char* forced = std::getenv("VRPCA_ISA");
        for (int i = 0; forced && i < best; i++)
            if (std::strcmp(forced, INSTRUCTION_SETS[i]) == 0) return InstructionSet(i);
        return best;
    }();
    return chosen;
}

}  // namespace vrpca

#if defined(VRPCA_HAVE_AVX512)
#define DISPATCH(...)                                                           \
    (vrpca::instruction_set() == vrpca::AVX512 ? vrpca::avx512::__VA_ARGS__ \
     : vrpca::instruction_set() == vrpca::AVX2 ? vrpca::avx2::__VA_ARGS__   \
                                               : vrpca::baseline::__VA_ARGS__)
#elif defined(VRPCA_HAVE_AVX2)
#define DISPATCH(...) \
    (vrpca::instruction_set() == vrpca::AVX2 ? vrpca::avx2::__VA_ARGS__ : vrpca::baseline::__VA_ARGS__)
#else
#define DISPATCH(...) (vrpca::baseline::__VA_ARGS__)
#endif
