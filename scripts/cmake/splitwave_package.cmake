# libsplitwave.so's package. Owns the shared library's name, version and exported symbols, the
# install rules and the files that find_package(splitwave) reads. Included once, after src/.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(splitwave_header ${PROJECT_SOURCE_DIR}/include/splitwave/splitwave.h)
file(STRINGS ${splitwave_header} abi_line REGEX "^#define SPLITWAVE_ABI_VERSION [0-9]+$")
string(REGEX REPLACE "^.* " "" SPLITWAVE_ABI_VERSION "${abi_line}")
if(NOT SPLITWAVE_ABI_VERSION MATCHES "^[0-9]+$")
  message(FATAL_ERROR "splitwave.h defines no SPLITWAVE_ABI_VERSION")
endif()

add_library(splitwave::splitwave ALIAS splitwave_shared)
target_compile_definitions(splitwave_shared PRIVATE SPLITWAVE_VERSION_TEXT="${PROJECT_VERSION}")
target_include_directories(splitwave_shared INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set(export_map ${PROJECT_SOURCE_DIR}/scripts/cmake/libsplitwave.map)
target_link_options(splitwave_shared PRIVATE "LINKER:--version-script=${export_map}")
set_target_properties(splitwave_shared PROPERTIES
  OUTPUT_NAME splitwave
  EXPORT_NAME splitwave
  VERSION ${SPLITWAVE_ABI_VERSION}.${PROJECT_VERSION}
  SOVERSION ${SPLITWAVE_ABI_VERSION}
  LINK_DEPENDS ${export_map}
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
  BUILD_RPATH "$ORIGIN"              # a wheel takes the library out of the build tree
  INSTALL_RPATH "$ORIGIN"            # a Highway that lies beside it, as in the Python wheel
  INSTALL_RPATH_USE_LINK_PATH ON)    # the CUDA runtime of the toolkit that built it

set(SPLITWAVE_BACKENDS cpu)
if(SPLITWAVE_HAVE_CUDA)
  list(APPEND SPLITWAVE_BACKENDS cuda)
endif()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/splitwave)
install(TARGETS splitwave_shared EXPORT splitwave_targets COMPONENT library
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT library)
install(FILES ${splitwave_header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/splitwave
        COMPONENT library)
install(EXPORT splitwave_targets NAMESPACE splitwave:: FILE splitwave-targets.cmake
        DESTINATION ${package_dir} COMPONENT library)
configure_package_config_file(${PROJECT_SOURCE_DIR}/scripts/cmake/splitwave-config.cmake.in
  ${PROJECT_BINARY_DIR}/splitwave-config.cmake INSTALL_DESTINATION ${package_dir})
# 0.x: a minor release may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/splitwave-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/splitwave-config.cmake
              ${PROJECT_BINARY_DIR}/splitwave-config-version.cmake
        DESTINATION ${package_dir} COMPONENT library)
