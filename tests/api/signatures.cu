// Compares the same types with nvcc, where the functions are inline and __host__ __device__.
#include "signatures.cpp"
