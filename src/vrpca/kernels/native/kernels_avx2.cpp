// Compiled with AVX2 and FMA enabled; called only where the processor has them.
#define VRPCA_ISA avx2
#include "kernels.inl"
#include "tall.inl"
#include "vectors.inl"
