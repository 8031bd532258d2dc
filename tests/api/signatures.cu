// The same types under nvcc, where the functions are inline and __host__ __device__.
#include "signatures.cpp"
