// The Python module vrpca.kernels._native.
#include "binding.hpp"

NB_MODULE(_native, m) {
    m.doc() = "Compiled kernels of vrpca; their specification is vrpca.kernels.reference.";
    m.def("instruction_set", [] { return vrpca::INSTRUCTION_SETS[vrpca::instruction_set()]; },
          "The instruction set the kernels run on; VRPCA_ISA in the environment can force a lesser one.");
    vrpca::bind_rows(m);  // first, because the signatures of the others name the types of rows
    vrpca::bind_products(m);
    vrpca::bind_moments(m);
    vrpca::bind_epochs(m);
    vrpca::bind_tall(m);
}
