# Run by the installation: links of the installed pages to files that only the sources have become their text.
# Takes gshmem_doc, where the pages are.
cmake_path(ABSOLUTE_PATH gshmem_doc BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
file(GLOB gshmem_pages "$ENV{DESTDIR}${gshmem_doc}/*.md")
foreach(page IN LISTS gshmem_pages)
  file(READ "${page}" old)
  string(REPLACE "](../CHANGELOG.md" "](CHANGELOG.md" new "${old}")
  string(REPLACE "](docs/" "](" new "${new}")
  string(REGEX REPLACE "\\[([^][]*)\\]\\(([.][.]|figures)/[^)]*\\)" "\\1" new "${new}")
  if(NOT new STREQUAL old)
    file(WRITE "${page}" "${new}")
  endif()
endforeach()
