# The header page of a file, as a dict and as bytes.

KINDS = {"graph": GZ_KIND_GRAPH, "features": GZ_KIND_FEATURES}


cdef dict _header_to_dict(const gz_header *header):
    sections = []
    cdef uint32_t i
    for i in range(header.num_sections):
        sections.append((
            (<bytes> header.sections[i].name).decode("latin-1"), header.sections[i].dtype,
            header.sections[i].offset, header.sections[i].count, header.sections[i].length,
            header.sections[i].crc))
    return {"flags": header.flags, "file_bytes": header.file_bytes,
            "num_nodes": header.num_nodes, "width": header.width,
            "num_input_edges": header.num_input_edges, "num_neighbors": header.num_neighbors,
            "sections": sections}


def header_decode(const unsigned char[::1] page, uint64_t file_bytes, str kind, object path="file"):
    """Header page as a dict; the C version of `graphzero.store.format.decode_header`."""
    cdef gz_header header
    cdef gz_error err
    if page.shape[0] < GZ_PAGE_BYTES:
        raise FormatError(f"{path} is truncated: it has no whole header page")
    if gz_header_decode(&page[0], file_bytes, KINDS[kind], &header, &err) != GZ_OK:
        _raise(&err, path)
    return _header_to_dict(&header)


def header_encode(dict fields, str kind):
    """Header page, GZ_PAGE_BYTES long; the C version of `graphzero.store.format.encode_header`."""
    cdef gz_header header
    cdef bytes name, page
    memset(&header, 0, sizeof(header))
    header.kind = KINDS[kind]
    header.flags = fields["flags"]
    header.file_bytes = fields["file_bytes"]
    header.num_nodes = fields["num_nodes"]
    header.width = fields["width"]
    header.num_input_edges = fields["num_input_edges"]
    header.num_neighbors = fields["num_neighbors"]
    sections = fields["sections"]
    if len(sections) > GZ_MAX_SECTIONS:
        raise ValueError(f"at most {GZ_MAX_SECTIONS} sections")
    header.num_sections = len(sections)
    for i, (text, dtype, offset, count, length, crc) in enumerate(sections):
        name = text.encode("latin-1")
        if not 0 < len(name) <= GZ_NAME_BYTES:
            raise ValueError(f"section name {text!r} is not 1 to {GZ_NAME_BYTES} bytes long")
        memcpy(header.sections[i].name, <const char *> name, len(name))
        header.sections[i].dtype = dtype
        header.sections[i].offset = offset
        header.sections[i].count = count
        header.sections[i].length = length
        header.sections[i].crc = crc
    page = bytes(GZ_PAGE_BYTES)
    gz_header_encode(&header, <unsigned char *> <char *> page)
    return page


def crc32(const unsigned char[::1] data):
    """CRC-32 as `zlib.crc32` computes it."""
    return gz_crc32(&data[0], data.shape[0])


cdef int _read_header(Mapping mapping, gz_kind kind, gz_header *header) except -1:
    cdef gz_error err
    if mapping.c.size < GZ_PAGE_BYTES:
        what = "is empty" if mapping.c.size == 0 else "is truncated or foreign"
        raise FormatError(
            f"{mapping.path} {what}: {mapping.c.size} bytes are no graphzero file; "
            f"copy or build it again")
    cdef bytes page = mapping.read(0, GZ_PAGE_BYTES)
    if gz_header_decode(<const unsigned char *> <const char *> page, mapping.c.size, kind, header,
                        &err) != GZ_OK:
        _raise(&err, mapping.path)
    return 0
