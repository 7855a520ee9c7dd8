// Compiled for any processor of the architecture.
#define VRPCA_ISA baseline
#include "kernels.inl"
