# The public prototypes as text, for editors, grep and doxygen: gshmem/functions.h and
# gshmem/stream_functions.h of the build folder, which gshmem.h and gshmemx.h include. Made by the compiler's
# preprocessor from the tables of those names when the build is configured; each function has the description
# that functions.def gives its family. A function without one ends the configuration.

# gshmem_read_descriptions(FILE): sets text_KEY for each name of the entries "/// NAMES: text" in FILE.
macro(gshmem_read_descriptions file)
  file(STRINGS ${file} lines REGEX "^///")
  foreach(line IN LISTS lines)
    if(line MATCHES "^/// ([A-Za-z_.][A-Za-z_., ]*): (.*)$")
      string(REPLACE ", " ";" keys "${CMAKE_MATCH_1}")
      foreach(key IN LISTS keys)
        set(text_${key} "/// ${CMAKE_MATCH_2}")
      endforeach()
    elseif(line MATCHES "^///   (.*)$")
      foreach(key IN LISTS keys)
        string(APPEND text_${key} "\n/// ${CMAKE_MATCH_1}")
      endforeach()
    else()
      message(FATAL_ERROR "gshmem: ${file}: neither an entry nor a further line of one: ${line}")
    endif()
  endforeach()
endmacro()

# gshmem_describe(RESULT NAME): what the entries say about the function.
function(gshmem_describe result name)
  string(REGEX REPLACE "^gshmemx?_" "" stem ${name})
  set(more)
  if(stem MATCHES "_on_stream$")
    string(APPEND more "\n/// In `stream`: runs after the earlier work of the stream and before its later work.")
    string(REGEX REPLACE "_on_stream$" "" stem ${stem})
  endif()
  string(REGEX REPLACE "_(warp|block)$" "" stem ${stem})
  if(NOT stem MATCHES "^qp_(fence|quiet)$" AND stem MATCHES "^(ctx|qp)_(.*)")
    set(stem ${CMAKE_MATCH_2})
    string(APPEND more "\n${text_${CMAKE_MATCH_1}_...}")
  endif()
  string(REGEX REPLACE "^(${type_names})_" "T_" stem ${stem})
  foreach(ending nbi vector)
    if(stem MATCHES "^(.*)_${ending}$")
      set(stem ${CMAKE_MATCH_1})
      if(stem MATCHES "^T_atomic")
        string(APPEND more "\n${text_T_atomic..._${ending}}")
      else()
        string(APPEND more "\n${text_..._${ending}}")
      endif()
    endif()
  endforeach()
  string(REGEX REPLACE "^(i?b?[pg][eu]t)(8|16|32|64|128)" "\\1N" stem ${stem})
  string(REGEX REPLACE "^T_(atomic_|atomic_fetch_)(add|and|or|xor)$" "T_\\1OP" stem ${stem})
  string(REGEX REPLACE "^T_(sum|prod|min|max|and|or|xor)_(reduce|reducescatter)$" "T_OP_\\2" stem ${stem})
  if(NOT text_${stem})
    message(FATAL_ERROR "gshmem: functions.def has no description of ${name} (${stem})")
  endif()
  set(${result} "${text_${stem}}${more}\n" PARENT_SCOPE)
endfunction()

# gshmem_expand_rows(RESULT TABLE DEFINITIONS): what the preprocessor makes of each row of TABLE.def, whose macro
# DEFINITIONS begins with ROW.
function(gshmem_expand_rows result table definitions)
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/${table}.cpp)
  file(WRITE ${unit} "${definitions}\n#include <gshmem/${table}.def>\n")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -E -P -x c++ -I${CMAKE_CURRENT_SOURCE_DIR} ${unit}
    OUTPUT_VARIABLE rows COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "[ \n]+" " " rows "${rows}")
  string(REPLACE " * " "* " rows "${rows}")
  string(REPLACE " ROW " ";" rows " ${rows}")
  list(POP_FRONT rows)
  set(${result} "${rows}" PARENT_SCOPE)
endfunction()

# gshmem_write_prototypes(TABLE ROW MARK INTRODUCTION): TABLE.h from TABLE.def; ROW is the parameters of
# its macro and what it declares. MARK stands before each prototype.
function(gshmem_write_prototypes table row mark introduction)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/gshmem/${table}.def)
  set(header ${PROJECT_BINARY_DIR}/include/gshmem/${table}.h)
  set(inputs ${source} ${CMAKE_CURRENT_SOURCE_DIR}/gshmem/functions.def ${CMAKE_CURRENT_SOURCE_DIR}/gshmem/blocks.def
    ${CMAKE_CURRENT_SOURCE_DIR}/gshmem/complex.def ${CMAKE_CURRENT_SOURCE_DIR}/gshmem/long_double.def ${CMAKE_CURRENT_SOURCE_DIR}/gshmem/regions.def
    ${CMAKE_CURRENT_SOURCE_DIR}/gshmem/lists.def
    ${CMAKE_CURRENT_SOURCE_DIR}/gshmem/types.def
    ${CMAKE_CURRENT_FUNCTION_LIST_FILE})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs})
  # Apart from the header, which keeps its time when it keeps its text.
  set(made ${CMAKE_CURRENT_BINARY_DIR}/${table}.made)
  set(stale FALSE)
  foreach(input IN LISTS inputs)
    if("${input}" IS_NEWER_THAN "${made}" OR NOT EXISTS "${header}")
      set(stale TRUE)
    endif()
  endforeach()
  if(NOT stale)
    return()
  endif()

  file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/gshmem/types.def types REGEX "^GSHMEM_TYPE")
  list(TRANSFORM types REPLACE "^GSHMEM_TYPE.([a-z0-9]+),.*" "\\1")
  list(APPEND types complexf complexd double2 longdouble)
  list(JOIN types "|" type_names)
  gshmem_read_descriptions(${CMAKE_CURRENT_SOURCE_DIR}/gshmem/functions.def)
  gshmem_read_descriptions(${CMAKE_CURRENT_SOURCE_DIR}/gshmem/blocks.def)
  gshmem_read_descriptions(${CMAKE_CURRENT_SOURCE_DIR}/gshmem/regions.def)
  gshmem_read_descriptions(${CMAKE_CURRENT_SOURCE_DIR}/gshmem/lists.def)

  gshmem_expand_rows(rows ${table} "#define ${row}")
  set(text)
  set(text_of_hosts)
  foreach(row IN LISTS rows)
    if(NOT row MATCHES "^(.*[^ ]) (gshmemx?_[a-z0-9_]+) ?(\\(.*\\)) ?$")
      message(FATAL_ERROR "gshmem: ${table}.def: no prototype: ${row}")
    endif()
    set(prototype "${mark} ${CMAKE_MATCH_1} ${CMAKE_MATCH_2}${CMAKE_MATCH_3};\n")
    gshmem_describe(description ${CMAKE_MATCH_2})
    if(prototype MATCHES "_longdouble_")
      string(APPEND text_of_hosts "${description}${prototype}")
    else()
      string(APPEND text "${description}${prototype}")
    endif()
  endforeach()
  if(table STREQUAL functions)
    set(text "#if !defined(GSHMEM_INLINE_FUNCTIONS)  // nvcc has them, collectives as templates, from gshmem.h\n${text}#endif\n${text_of_hosts}")
  endif()
  file(CONFIGURE OUTPUT ${header} @ONLY CONTENT "${introduction}
// Made from ${table}.def.
#pragma once

#include <gshmem/gshmem.h>

#ifdef __cplusplus
extern \"C\" {
#endif
${text}
#ifdef __cplusplus
}
#endif
")
  file(TOUCH ${made})
endfunction()

gshmem_write_prototypes(functions
  "GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) ROW RET GSHMEM_NAME_##KIND(STEM) PARAMS"
  GSHMEM_EXPORT
  "// Every function that moves data or synchronizes. gshmem.h has the terms, functions.def what is common to all
// and to each family, docs/guide.md the guide.")
gshmem_write_prototypes(stream_functions
  "GSHMEM_STREAM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) ROW RET gshmemx_##STEM##_on_stream PARAMS"
  GSHMEM_EXPORT
  "// Every function that leaves an operation in a CUDA stream. stream_functions.def has their order, and what a
// stream promises. Host only.")

# --- Names without a type: gshmem/generic_names.h ---------------------------------------------------------------
# For each set of types (generic.def, TYPES) the C types in it, each once: several names of types.def stand for
# one. And in C the names as macros.
function(gshmem_write_generic_names)
  set(definitions "#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) ROW NAME/T/AMO/WAIT_##WAIT/REDUCE")
  foreach(type int8 int16 int32 int64 uint8 uint16 uint32 uint64 size ptrdiff)
    string(TOUPPER ${type} of_compiler)
    string(APPEND definitions "\n#define ${type}_t __${of_compiler}_TYPE__")
  endforeach()
  gshmem_expand_rows(types types "${definitions}")
  set(RMA "^")
  set(EXT "/(EXT|STD|BIT)/WAIT")
  set(STD "/(STD|BIT)/WAIT")
  set(BIT "/BIT/WAIT")
  set(WAIT "/WAIT_1/")
  set(NUM "/(NUM|BITS|OWN)$")
  set(BITS "/BITS$")
  set(text)
  list(APPEND types "longdouble/long double/NONE/WAIT_0/NUM")
  foreach(set RMA EXT STD BIT WAIT NUM BITS)
    string(APPEND text "#define GSHMEM_TYPES_${set}(M, ...)")
    set(there)
    foreach(row IN LISTS types)
      string(STRIP "${row}" row)
      string(REGEX REPLACE "^([a-z0-9]+)/ ?([a-z0-9_ ]+[a-z0-9_]) ?/.*" "\\1;\\2" name_and_type "${row}")
      list(GET name_and_type 0 name)
      list(GET name_and_type 1 type)
      # The compiler says "long unsigned int" where the table says "unsigned long".
      string(REPLACE " " ";" words "${type}")
      list(LENGTH words count)
      if(count GREATER 1)
        list(REMOVE_ITEM words int)
      endif()
      list(SORT words)
      list(JOIN words " " words)
      if(row MATCHES "${${set}}" AND NOT words IN_LIST there)
        list(APPEND there "${words}")
        string(APPEND text " \\\n  M(${name}, ${type}, __VA_ARGS__)")
      endif()
    endforeach()
    string(APPEND text "\n")
  endforeach()
  gshmem_expand_rows(rows generic
    "#define GSHMEM_GENERIC(FIRST, TYPES, COUNT, OP) ROW gshmem_##OP GSHMEM_GENERIC_##FIRST(COUNT, GSHMEM_TYPES_##TYPES, _##OP, ")
  string(APPEND text "\n#if !defined(__cplusplus)\n")
  foreach(row IN LISTS rows)
    string(REGEX REPLACE "^(gshmem_[a-z_]+) (.*[^ ]) ?$" "#define \\1(...) \\2 __VA_ARGS__)\n" line "${row}")
    string(APPEND text "${line}")
  endforeach()
  string(APPEND text "#endif\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/gshmem/generic.def)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/include/gshmem/generic_names.h @ONLY CONTENT
    "// The C types of each set in generic.def, and in C the names of generic.h. Made from types.def and generic.def.
#pragma once

#include <gshmem/types.h>

${text}")
endfunction()
gshmem_write_generic_names()
