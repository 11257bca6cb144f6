# Text records: a block of lines is cut at line ends into ranges, which threads parse side by side.

cdef enum:
    LEAST_RANGE_BYTES = 1 << 16
    RANGES_PER_THREAD = 4

_CELL_KINDS = {
    "<u4": GZ_CELL_UINT32,
    "<i4": GZ_CELL_INT32,
    "<i8": GZ_CELL_INT64,
    "<f4": GZ_CELL_FLOAT32,
    "<f8": GZ_CELL_FLOAT64,
}
PARSED_DTYPES = frozenset(_CELL_KINDS)
PARSE_PADDING = GZ_PARSE_PADDING


cdef int64_t[::1] _line_cuts(const unsigned char *text, int64_t begin, int64_t end, int threads):
    """Begins of ranges of whole lines, and the end of the last."""
    cdef int64_t ranges = min(RANGES_PER_THREAD * threads, (end - begin) // LEAST_RANGE_BYTES)
    cdef int64_t i, at
    ranges = max(ranges, 1)
    cuts = np.full(ranges + 1, end, np.int64)
    cdef int64_t[::1] view = cuts
    cdef const unsigned char *line_end
    view[0] = begin
    for i in range(1, ranges):
        at = max(view[i - 1], begin + (end - begin) // ranges * i)
        if at < end:
            line_end = <const unsigned char *> memchr(text + at, 10, end - at)
            view[i] = line_end - text + 1
    return cuts


def parse_records(const unsigned char[::1] text, int64_t end, delimiter, int width, columns,
                  int num_threads):
    """Columns of numbers from the plain records of a block of whole lines.

    Parameters
    ----------
    text : buffer of bytes
        Its first `end` bytes are the lines, each of which ends with a line feed. At least 8 bytes
        follow.
    end : int
    delimiter : int or None
        A byte; None for any run of blanks and tabs.
    width : int
        Cells of a record.
    columns : sequence of (int, dtype)
        Position and dtype, of `PARSED_DTYPES`, of each column that is wanted.
    num_threads : int

    Returns
    -------
    list of tuple of arrays
        The columns in pieces, in the order of the records.
    int
        Where the first record begins that is not plain; `end` if there is none.
    """
    if end < 0 or end + GZ_PARSE_PADDING > text.shape[0] or (end > 0 and text[end - 1] != 10):
        raise ValueError("the block does not end with a line feed and padding")
    if any(not 0 <= index < width for index, _ in columns):
        raise IndexError("a column that the records do not have")
    if end == 0:
        return [], 0
    cdef int threads = num_threads if gz_may_use_threads() else 1
    cdef const unsigned char *begin = &text[0]
    cdef int64_t[::1] cuts = _line_cuts(begin, 0, end, threads)
    cdef int64_t ranges = cuts.shape[0] - 1, i
    threads = <int> min(threads, ranges)
    counts = np.zeros(ranges + 1, np.int64)
    cdef int64_t[::1] lines = counts
    for i in prange(ranges, nogil=True, num_threads=threads):
        lines[i + 1] = gz_count_lines(begin, cuts[i], cuts[i + 1])
    firsts = np.cumsum(counts)
    cdef int64_t[::1] first = firsts
    arrays = [np.empty(firsts[ranges], dtype) for _, dtype in columns]
    cells = np.zeros(width * sizeof(gz_cell_column), np.uint8)
    cdef unsigned char[::1] cell_bytes = cells
    cdef gz_cell_column *cell = <gz_cell_column *> &cell_bytes[0]
    cdef unsigned char[::1] out
    for array, (index, dtype) in zip(arrays, columns):
        out = array.view(np.uint8)
        cell[<int> index].kind = _CELL_KINDS[np.dtype(dtype).newbyteorder("<").str]
        cell[<int> index].out = &out[0]
    cdef gz_record_format record_format
    record_format.delimiter = 0 if delimiter is None else delimiter
    record_format.blanks = delimiter is None
    record_format.width = width
    record_format.columns = cell
    cdef int64_t[::1] records = np.empty(ranges, np.int64), stops = np.empty(ranges, np.int64)
    cdef gz_parsed parsed
    for i in prange(ranges, nogil=True, num_threads=threads, schedule="dynamic"):
        parsed = gz_parse_records(&record_format, begin, cuts[i], cuts[i + 1], first[i])
        records[i] = parsed.records
        stops[i] = parsed.stop
    return _parsed_pieces(arrays, first, records, cuts, stops)


cdef object _parsed_pieces(arrays, const int64_t[::1] first, const int64_t[::1] records,
                           const int64_t[::1] cuts, const int64_t[::1] stops):
    """Slices up to the first stop; ranges that follow one another without a gap are one piece."""
    cdef int64_t i, begin = first[0], end = first[0], stop = cuts[0]
    pieces = []
    for i in range(records.shape[0]):
        if first[i] != end:
            pieces.append(tuple(array[begin:end] for array in arrays))
            begin = first[i]
        end = first[i] + records[i]
        stop = stops[i]
        if stop != cuts[i + 1]:
            break
    pieces.append(tuple(array[begin:end] for array in arrays))
    return [piece for piece in pieces if len(piece[0])], stop
