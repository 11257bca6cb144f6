# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: embedsignature=True
"""The compiled core: coerces buffers, runs the C kernels without the GIL, checks, returns.

Nothing here decides anything: ranges are cut for ``prange``, codes become exceptions. Ids are
int64 arrays that the caller has validated (`graphzero.graph.ids`), unless a
method says that it checks.
"""
import math
import os
import threading
import time
from contextlib import ExitStack

import numpy as np

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_FillInfo
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange
from libc.errno cimport EIO
from libc.stdint cimport INT64_MAX
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcpy, memset
from posix.unistd cimport getpid, pid_t

from graphzero._disk cimport *
from graphzero._ingest cimport *

from graphzero.errors import FormatError

gz_fork_guard()

# Includes, not modules: one copy of the C objects, and of what a process has one of (the pool, the
# count of open mappings). Each needs only those before it; the imports above serve them all.
include "core/errors.pxi"
include "core/ranges.pxi"
include "core/mapping.pxi"
include "core/header.pxi"
include "core/pool.pxi"
include "core/draws.pxi"
include "core/ids.pxi"
include "core/csr.pxi"
include "core/check_lists.pxi"
include "core/block_sums.pxi"
include "core/rows.pxi"
include "core/direct.pxi"
include "core/team.pxi"
include "core/fills.pxi"
include "core/group.pxi"
include "core/disk_probe.pxi"
include "core/records.pxi"
include "core/edges.pxi"
