#define VRPCA_ISA baseline
#include "kernels.inl"
