# Feature rows of a mapped file, gathered by number.

def feature_header(Mapping mapping):
    """Header of a mapped ``.gd`` file as a dict."""
    cdef gz_header header
    _read_header(mapping, GZ_KIND_FEATURES, &header)
    return _header_to_dict(&header)


cdef int _require_rows(Mapping mapping, uint64_t origin, uint64_t row_bytes,
                       uint64_t num_rows) except -1:
    if origin > mapping.c.size or (
            row_bytes > 0 and num_rows > (mapping.c.size - origin) // row_bytes):
        raise FormatError(f"{mapping.path} is truncated: its rows reach beyond its end")
    return 0


cdef int _cast_rows(uint32_t from_dtype, uint64_t row_bytes, int64_t num_rows,
                    const unsigned char[::1] out, gz_cast *cast) except -1:
    """How some rows are copied to out: converted from a dtype to float32, or as they are for 0."""
    cdef uint32_t size = gz_dtype_size(from_dtype)
    if from_dtype != 0 and (size == 0 or row_bytes % size != 0):
        raise ValueError(f"rows of {row_bytes} bytes do not have numbers of dtype {from_dtype}")
    cast[0] = gz_cast_of(from_dtype)
    if <uint64_t> out.shape[0] != num_rows * gz_cast_bytes(cast, row_bytes):
        raise ValueError("out has the wrong size")
    cast.past_cache = cast.convert == NULL and gz_goes_past_cache(row_bytes, out.shape[0])
    return 0


cdef class Rows:
    """Rows of fixed size in a mapped ``.gd`` or ``.npy`` file.

    Parameters
    ----------
    mapping : Mapping
    origin, row_bytes, num_rows : int
        First byte of row 0, bytes of a row, number of rows.
    rank : tuple of (int, bool), optional
        Byte offset of the user-id-to-row table, and whether its ids are 64 bits wide.
    """
    cdef readonly Mapping mapping
    cdef readonly uint64_t origin, row_bytes, num_rows
    cdef gz_ids rank

    def __cinit__(self, Mapping mapping, uint64_t origin, uint64_t row_bytes, uint64_t num_rows,
                  rank=None):
        self.mapping = mapping
        self.origin, self.row_bytes, self.num_rows = origin, row_bytes, num_rows
        _require_rows(mapping, origin, row_bytes, num_rows)
        self.rank.data = NULL
        if rank is not None:
            offset, self.rank.wide = rank
            self.rank.data = mapping.c.base + <uint64_t> offset

    def to_stored(self, ids, int num_threads=1):
        """Row numbers of the user's ids; the same array if rows are in the user's order."""
        if self.rank.data == NULL:
            return ids
        return _translate(self.mapping, &self.rank, self.num_rows, ids, num_threads)

    def user_table(self):
        """Table of the ids that rows have, in a file of the user's ids: 4 or 8 bytes a row."""
        cdef gz_ids ids
        ids.data = self.mapping.c.base + self.origin
        ids.wide = self.row_bytes == 8
        return _table_of(self.mapping, &ids, self.num_rows)

    def to_user(self, rows, int num_threads=1):
        """The ids that some rows have, in a file of the user's ids."""
        return self.user_table().translate(rows, num_threads)

    def gather(self, const int64_t[::1] rows, unsigned char[::1] out, int num_threads,
               uint32_t from_dtype=0):
        """Copies rows, by number, into the bytes of out.

        With `from_dtype`, the code of the stored dtype, numbers are converted to float32.
        """
        cdef int64_t n = rows.shape[0], i
        cdef const unsigned char *data
        cdef gz_cast cast
        _cast_rows(from_dtype, self.row_bytes, n, out, &cast)
        self.mapping.acquire_whole(n)
        try:
            data = self.mapping.c.base + self.origin
            for i in prange(_ranges(n), nogil=True, num_threads=_threads(num_threads, n)):
                gz_gather_rows(data, self.row_bytes, &cast, &rows[0], i * ITEMS_PER_RANGE,
                               _end(i, n), NULL, &out[0])
        finally:
            self.mapping.release()
