#pragma once
#include <nanobind/nanobind.h>

void bind_tall(nanobind::module_& m);
