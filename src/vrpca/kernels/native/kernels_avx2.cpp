// Compiled with AVX2 and FMA. dispatch.hpp calls it only where the processor has both.
#define VRPCA_ISA avx2
#include "kernels.inl"
