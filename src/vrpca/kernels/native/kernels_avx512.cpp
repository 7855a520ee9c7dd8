// Compiled with the parts of AVX-512 that dispatch.hpp asks for.
#define VRPCA_ISA avx512
#include "kernels.inl"
