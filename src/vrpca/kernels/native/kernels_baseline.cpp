#define VRPCA_ISA baseline
#include "kernels.inl"
#include "tall.inl"
#include "vectors.inl"
