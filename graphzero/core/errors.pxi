# Error codes of C, and counts of corrupt entries, become exceptions.

cdef int _raise(const gz_error *err, object path) except -1:
    """The one place where a C code becomes an exception."""
    cdef str message = (<bytes> err.message).decode("utf-8", "replace")
    if err.code == GZ_E_OS:
        code = err.saved_errno or EIO
        raise OSError(code, f"{message}: {os.strerror(code)}", path)
    if err.code == GZ_E_NOMEM:
        raise MemoryError(message)
    raise FormatError(f"{path} {message}")


cdef int _refuse_corrupt(uint64_t corrupt, object path) except -1:
    if corrupt != 0:
        raise FormatError(
            f"{path} is corrupt: {corrupt} entries read in this call are out of range; "
            f"check it with 'graphzero verify' and build it again")
    return 0
