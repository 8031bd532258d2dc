// A library with the name of another one and no functions.
extern "C" int cudart_double() { return 1; }
