// A library that has the name of another one, and nothing else.
extern "C" int cudart_double() { return 1; }
