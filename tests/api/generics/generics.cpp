// Compiles generics.c as C++: the same calls are overloads.
#pragma GCC diagnostic ignored "-Wold-style-cast"
#include "tests/api/generics/generics.c"
