# CPack reads this before it builds and packs. Without dpkg-shlibdeps it would make a .deb that depends on nothing.
if(CPACK_GENERATOR STREQUAL "DEB")
  find_program(ZF_DPKG_SHLIBDEPS dpkg-shlibdeps)
  find_program(ZF_FILE file)
  if(NOT ZF_DPKG_SHLIBDEPS OR NOT ZF_FILE)
    message(FATAL_ERROR  # the space keeps it on one line
      " dpkg-shlibdeps and file say what a .deb depends on, and one is missing: apt-get install dpkg-dev file")
  endif()
endif()
