# Sets where files are installed (cmake --install build), and makes the .deb (cpack -G DEB in the build folder).
#
# Include this file before the first install rule, because it decides where libraries go.

# Debian keeps libraries in lib/<triplet> both below /usr and below /usr/local, and its loader looks there. Without this
# setting GNUInstallDirs would choose lib for a build that was configured for /usr/local, and also for its .deb.
if(EXISTS /etc/debian_version AND CMAKE_LIBRARY_ARCHITECTURE)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "Libraries, below the prefix")
endif()
include(GNUInstallDirs)

# Compress the pages without a time stamp, as Debian does, so that two builds give the same bytes.
find_program(ZF_GZIP gzip)
function(zf_install_page source name folder)
  if(NOT ZF_GZIP)
    install(FILES ${source} DESTINATION ${folder} RENAME ${name})
    return()
  endif()
  set(page ${CMAKE_BINARY_DIR}/pages/${name}.gz)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/pages)
  add_custom_command(OUTPUT ${page} DEPENDS ${source}
    COMMAND ${ZF_GZIP} -9 -n -c ${source} > ${page} VERBATIM)
  add_custom_target(page-${name} ALL DEPENDS ${page})
  set_property(GLOBAL APPEND PROPERTY ZF_PAGES page-${name})
  install(FILES ${page} DESTINATION ${folder})
endfunction()

zf_install_page(${PROJECT_SOURCE_DIR}/docs/zf-tune.1 zf-tune.1 ${CMAKE_INSTALL_MANDIR}/man1)
zf_install_page(${PROJECT_SOURCE_DIR}/CHANGELOG.md changelog ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg")
set(slurm ${PROJECT_SOURCE_DIR}/scripts/slurm)
install(PROGRAMS ${slurm}/prolog ${slurm}/task-prolog ${slurm}/epilog ${slurm}/health
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zf-tune/slurm)
install(FILES ${slurm}/common.sh ${slurm}/zf-tune.conf ${slurm}/job.sbatch ${slurm}/tune-classes.sbatch
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zf-tune/slurm)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs/machines DESTINATION ${CMAKE_INSTALL_DATADIR}/zf-tune OPTIONAL)

# All that is installed, for scripts/release.
get_property(pages GLOBAL PROPERTY ZF_PAGES)
add_custom_target(product DEPENDS zf-tune zf-optimizer zf_runtime ${pages})

# Completions of the shells, which ask zf-tune what may follow.
set(completions ${PROJECT_SOURCE_DIR}/scripts/completions)
install(FILES ${completions}/zf-tune.bash RENAME zf-tune
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${completions}/_zf-tune DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${completions}/zf-tune.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# The portable build brings libnuma along. Its licence, LGPL 2.1, lets the user put another in its place.
set(ZF_PORTABLE "" CACHE PATH "The libraries of the portable build; scripts/portable/programs sets it")
if(ZF_PORTABLE)
  # What neither glibc 2.28 nor zig has; all that is linked below may need it.
  set(newer ${PROJECT_SOURCE_DIR}/scripts/portable/newer_glibc.c)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    list(APPEND newer ${PROJECT_SOURCE_DIR}/scripts/portable/cpu_model.c)
  endif()
  add_library(zf_newer_glibc STATIC ${newer})
  link_libraries(zf_newer_glibc)

  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib/zf-tune:$ORIGIN/../lib64/zf-tune")
  file(COPY ${ZF_PORTABLE}/lib/libnuma.so.1 DESTINATION ${CMAKE_BINARY_DIR}/lib/zf-tune)
  install(PROGRAMS ${ZF_PORTABLE}/lib/libnuma.so.1 DESTINATION ${CMAKE_INSTALL_LIBDIR}/zf-tune)
  install(DIRECTORY ${ZF_PORTABLE}/licences DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME zf-tune)
set(CPACK_PACKAGE_CONTACT "zf-tune maintainers <maintainers@zf-tune.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "CPU binding plans for training with CPU offload")
set(CPACK_PACKAGE_DESCRIPTION
"Training with CPU offload runs the optimizer on the host, where it competes with
the training process for cores and memory bandwidth. zf-tune reads what the machine
and the allocation really are, measures how many cores the optimizer needs, and
writes one JSON plan. The launcher and the native optimizer process obey it.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/scripts/deb_tools.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/scripts/portable/times.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# Set the permissions of folders in the package, so that they do not depend on the umask of the user who builds it.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# The .rpm is made from the portable build. It needs glibc alone, and its libnuma is for no other program.
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_COMPRESSION_TYPE xz)
set(CPACK_RPM_SPEC_MORE_DEFINE
"%define __requires_exclude ^libnuma
%define __provides_exclude ^libnuma
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define _buildhost localhost
%define _build_id_links none
%define __os_install_post %{nil}")  # which would strip programs of another architecture
set(CPACK_RPM_PACKAGE_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
  /usr/share/man /usr/share/man/man1 /usr/share/zsh /usr/share/zsh/site-functions /usr/share/fish
  /usr/share/fish/vendor_completions.d /usr/share/bash-completion /usr/share/bash-completion/completions)
if(ZF_PORTABLE)
  set(CPACK_STRIP_FILES OFF)  # the linker has stripped them
endif()
include(CPack)
