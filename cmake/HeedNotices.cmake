# Wheels carry the notices of what is compiled into them. heed_install_notices(COMPONENT PACKAGES...): each of Debian's packages has
# its notice in ${HEED_NOTICES}/PACKAGE/copyright; where that is missing, the wheel goes without, and ./dev wheels refuses it.
set(HEED_NOTICES /usr/share/doc CACHE PATH "Folder with PACKAGE/copyright for libhwy-dev, nlohmann-json3-dev and libcli11-dev")
mark_as_advanced(HEED_NOTICES)

function(heed_install_notices component)
  foreach(package IN LISTS ARGN)
    if(EXISTS ${HEED_NOTICES}/${package}/copyright)
      install(FILES ${HEED_NOTICES}/${package}/copyright RENAME ${package} DESTINATION ${SKBUILD_METADATA_DIR}/licenses
        COMPONENT ${component})
    endif()
  endforeach()
endfunction()
