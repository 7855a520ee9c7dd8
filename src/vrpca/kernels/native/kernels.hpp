// The declarations of all kernels. reference.py has the same kernels in NumPy.
//
// VRPCA_ISA names an instruction set, and every declaration is in vrpca::VRPCA_ISA. dispatch.hpp includes this file
// once for each instruction set, so there is no include guard.
#include "epochs.hpp"
#include "gram.hpp"
#include "moments.hpp"
#include "products.hpp"
#include "sizes.hpp"
#include "symmetric.hpp"
#include "tall.hpp"
#include "vectors.hpp"
