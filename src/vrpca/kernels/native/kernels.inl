// The arithmetic of all kernels. One source file for each instruction set includes this file, for example
// kernels_avx2.cpp. It defines VRPCA_ISA as the name of the instruction set and is compiled with the flags of that
// instruction set. All code is in vrpca::VRPCA_ISA.
//
// This code may not use templates or inline functions of the C++ library. The linker keeps one copy of such a
// function for the whole module. That copy could be one with instructions that the processor does not have.
#include "gram.inl"
#include "moments.inl"
#include "oja_block.inl"
#include "products_dense.inl"
#include "products_sparse.inl"
#include "symmetric.inl"
#include "tall.inl"
#include "vectors.inl"
#include "vr_block.inl"
#include "vr_gram_schmidt.inl"
#include "vr_vector.inl"
