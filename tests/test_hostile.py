"""Hostile manifests, ``.npy`` headers, packs and states: errors of this package that name them."""

from __future__ import annotations

import json
import shutil
import struct
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import product

import files
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from verify_cases import DATASETS

import graphzero as gz
from graphzero import _core
from graphzero.errors import FormatError
from graphzero.ingest import lists, row_files
from graphzero.sampling import negatives
from graphzero.store import format as gz_format
from graphzero.store.manifest import MANIFEST_NAME, read_manifest

pytestmark = pytest.mark.core  # under AddressSanitizer, too

DEEP = 200_000
HUGE = [2**31, 2**63 - 1, 2**63, 2**64, 10**30, -1, -(2**63)]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "d"
    rows = np.ones((3, 2), np.float32)
    options = {"order": "presample", "presample": gz.Presample(fanouts=[1], batch_size=2)}
    options["coalesce"] = True
    gz.build(folder, [[0, 1], [1, 2], [2, 0]], rows, [0, 1, 2], {"train": [0]}, **options).close()
    return folder / MANIFEST_NAME


def changed(content, path, value):
    """A copy of nested JSON with one value replaced."""
    if not path:
        return value
    copy = content.copy()
    copy[path[0]] = changed(content[path[0]], path[1:], value)
    return copy


def paths_in(content, here=()):
    yield here
    if isinstance(content, dict):
        for name, value in content.items():
            yield from paths_in(value, (*here, name))
    elif isinstance(content, list):
        for i, value in enumerate(content):
            yield from paths_in(value, (*here, i))


VALUES = (
    st.sampled_from([float("inf"), float("-inf"), float("nan"), 1e400, 0.5, True, False, None])
    | st.sampled_from(HUGE)
    | st.text(max_size=5)
    | st.sampled_from(["", ".", "..", "a/b", "\0", "\ud800", "x" * 5000])
    | st.just([])
    | st.just({})
    | st.integers()
)


@given(data=st.data())
@settings(max_examples=400, deadline=None)
def test_any_value_anywhere_in_a_manifest(manifest, data):
    """It opens as a whole dataset, or is refused by name; nothing else comes out."""
    whole = manifest.read_text()
    content = json.loads(whole)
    path = data.draw(st.sampled_from(list(paths_in(content))))
    try:
        manifest.write_text(json.dumps(changed(content, path, data.draw(VALUES))))
        error = error_of(lambda: gz.open(manifest.parent).close(), FormatError, FileNotFoundError)
        assert error is None or str(manifest.parent) in error
    finally:
        manifest.write_text(whole)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *product(["num_nodes"], ["Infinity", "NaN", "1e999", "3.5", "-1", "true", '"3"']),
        *product(["num_edges", "num_classes"], ["Infinity", "-5"]),
        ("directed", '"false"'),
        ("order", "7"),
    ],
)
def test_values_that_are_none_of_a_manifest_are_named(manifest, tmp_path, name, value):
    content = json.loads(manifest.read_text())
    text = json.dumps({**content, name: "HERE"}).replace('"HERE"', value)
    (tmp_path / MANIFEST_NAME).write_text(text)
    with pytest.raises(FormatError, match=f"{MANIFEST_NAME} is .*corrupt .*{name}.*build"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ["[" * DEEP, '{"a":' * DEEP, "[" * DEEP + "]" * DEEP, "9" * DEEP])
def test_json_that_is_too_deep_or_long(tmp_path, text):
    for content in (text, f'{{"format": "graphzero-dataset", "version": {text}}}'):
        (tmp_path / MANIFEST_NAME).write_text(content)
        with pytest.raises(FormatError, match=f"{MANIFEST_NAME} is not a graphzero dataset"):
            gz.open(tmp_path)


# --- .npy


def write_npy(path, header, version=(1, 0), data=b"\0" * 64):
    text = header.encode("latin-1") + b"\n"
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    path.write_bytes(b"\x93NUMPY" + bytes(version) + length + text + data)


def npy_of(shape, descr="'<f4'"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"


SHAPES = [
    f"({2**62}, 4)", f"({2**63}, 4)", f"({2**64}, 1)", f"({10**30},)", f"(1, {10**30})", "(-1, 4)",
    "(4, -1)", f"({2**33}, {2**33})", f"({2**62}, 0)", f"(0, {2**62})", f"(0, {2**64})",
    f"({2**64}, 0)", "(True, 2)", "4", "('a',)", "(1e400, 2)",
]  # fmt: skip
HEADERS = [
    *map(npy_of, SHAPES),
    npy_of("(1,)", "[('a', '<f4'), ('a', '<f4')]"),
    npy_of("(1,)", "'<f99999999999'"),
    npy_of("(1,)", "7"),
    npy_of("(1,)", "('<f4', (99999999999,))"),
    "-" * 9000 + "1",
    "(" * 9000,
    "(" * 80 + ")" * 80,
    "{" * 5000,
    "x" * 60000,
    "{'descr': ",
    "\0",
    "'" * 3,
    "{}",
]


def error_of(call, *kinds):
    """The error, which must be exactly of one of these kinds; None without one."""
    caught = None
    try:
        call()
    except Exception as error:
        caught = error
    assert caught is None or type(caught) in kinds, repr(caught)
    assert _core.open_mappings() == 0
    return None if caught is None else str(caught)


def errors_of(path):
    """Of both readers: the mapped one, and that of the build."""
    built = path.parent / "built"
    opened = error_of(lambda: gz.FeatureStore(path).close(), FormatError)
    build = error_of(
        lambda: gz.build(built, [[0, 1]], features=path).close(), ValueError, FormatError, OSError
    )
    for error in (opened, build):
        # or, of a size that a disk may have: there is no room for what it says that it holds
        is_too_large = error is not None and f"are free: '{built}'" in error
        assert error is None or str(path) in error or is_too_large, error
    return opened, build


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (9, 9)])
@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header[-60:])
def test_hostile_headers_of_npy_files(tmp_path, header, version):
    write_npy(tmp_path / "x.npy", header, version)
    assert None not in errors_of(tmp_path / "x.npy")


@pytest.mark.filterwarnings("ignore")
@given(
    shape=st.tuples(st.integers() | st.sampled_from(HUGE), st.integers() | st.sampled_from(HUGE))
    | st.tuples(st.integers() | st.sampled_from(HUGE)),
    junk=st.binary(max_size=20),
)
@example(shape=(0, 1 << 29), junk=b"")
@settings(max_examples=200, deadline=None)
def test_any_shape_of_an_npy_file(tmp_path_factory, shape, junk):
    path = tmp_path_factory.mktemp("npy") / "x.npy"
    write_npy(path, npy_of(shape), data=junk)
    errors_of(path)


@pytest.mark.parametrize("num_nodes", [0, 1, 2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("width", [0, 1, 2**31, 2**62, 2**63, 2**64 - 1])
def test_hostile_counts_of_feature_files(tmp_path, num_nodes, width):
    files.write_rows(tmp_path / "f.gd", np.empty((0, 1), np.float32))
    header = gz_format.read_header(tmp_path / "f.gd")
    page = gz_format.encode_header(replace(header, num_nodes=num_nodes, width=width))
    with open(tmp_path / "f.gd", "r+b") as file:
        file.write(page)

    def use():
        with gz.FeatureStore(tmp_path / "f.gd") as store:
            store.get_tensor()
            store.gather([])

    error = error_of(use, FormatError)
    assert error is None or str(tmp_path) in error


# --- packs and states


@pytest.mark.parametrize("text", ["[" * DEEP, '{"version":' * DEEP, "Infinity", "9" * DEEP])
def test_hostile_options_of_packs(text):
    from graphzero.packs.pack_file import PackInfo

    with pytest.raises(ValueError, match="pack|digits|version|limit"):
        PackInfo.decode(text.encode())


@pytest.mark.parametrize("name", ["num_seeds", "batch_size", "first_epoch", "epochs", "seed"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), 10**400, -1, "1", True, None])
def test_hostile_numbers_in_packs(manifest, tmp_path, name, value):
    from graphzero.packs.pack_file import Pack, PackInfo

    with gz.open(manifest.parent) as ds:
        gz.pack(ds, tmp_path / "p.gd", [0, 1, 2], [1], epochs=1, batch_size=2, resident=0)
    with Pack(tmp_path / "p.gd").store as store:
        content = json.loads(store.read_section("pack_options").tobytes())
    (content if name in content else content["options"])[name] = value
    if (name, value) == ("seed", 10**400) or (name, value) == ("seed", -1):
        return  # any integer is a seed
    with pytest.raises(ValueError, match=name):
        PackInfo.decode(json.dumps(content).encode())


def nested(depth):
    state = {"version": 1}
    for _ in range(depth):
        state = {"inside": state}
    return state


def test_states_that_are_too_deep_or_contain_themselves(manifest):
    pytest.importorskip("torch")
    circle = {}
    circle["inside"] = circle
    with gz.open(manifest.parent) as ds:
        batches = gz.NeighborDataset(ds, fanouts=[1])
        for state in (nested(DEEP), circle):
            with pytest.raises(ValueError, match="nested too deeply"):
                batches.resume(state)
        batches.set_epoch(0)
        whole = batches.state_after(1)
        for name in ("epoch", "batches"):
            for value in (2**63, 10**400, -1, float("inf"), "1", None, True):
                with pytest.raises(ValueError, match=f"{name} of the state"):
                    batches.resume({**whole, name: value})


# ---- values of files, with right checksums

WORDS = st.sampled_from([0, 1, 40, 300, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1])
WAYS = [{}, {"replace": True}, {"labor": True}, {"disjoint": True}, {"subgraph_type": "induced"}]
WAYS += [{"weighted": True, "replace": replaces} for replaces in (False, True)]
NOW = {"batch_size": 7, "prefetch": gz.Prefetch(lookahead=0)}
CITES = ("a", "cites", "b")


def calls_of(ds):
    """Calls, the limit of the ids that they return, and the least of these."""
    for nodes in ds.nodes.values():
        everyone, count = range(nodes.num_nodes), nodes.num_nodes
        for call in (nodes.to_stored, nodes.to_user):
            yield partial(call, np.arange(count)), count, 0
        for how, p in product(({}, {"weighted": True}), () if ds.is_typed else (0.3, 1, 4)):
            yield partial(ds.graph.sample_neighbors, everyone, 2, replace=p > 1, **how), count, 0
            how = {"p": p, "q": 1 / p, "restart": 0.2 * (p < 1), **how}
            yield partial(ds.graph.random_walk, everyone, 9, **how), count, -1
    for kind, edges in ds.edges.items():
        owners = np.arange(edges.owner.num_nodes)
        yield partial(edges.degree, owners), edges.num_edges + 1, 0
        yield from ((partial(edges.neighbors, v), edges.neighbor.num_nodes, 0) for v in owners)
        positions = [[0, edges.graph.num_input_edges - 1], *map(np.array, edges.splits.values())]
        for call in (edges.all_edges, *(partial(edges.edges_at, at) for at in positions)):
            yield call, [[ds.nodes[end].num_nodes] for end in kind[::2]], 0


def loaders_of(ds, pack):
    """What makes the mini-batches of all kinds of loaders, with options that may not fit."""
    for name, nodes in ds.nodes.items():
        times = np.full(nodes.num_nodes, 25)
        timed = [{"input_time": times, "temporal_strategy": how} for how in ("last", "uniform")]
        splits = [(np.array(ids), {}) for ids in nodes.splits.values()]
        for ids, how in [*product([range(nodes.num_nodes)], WAYS + timed), *splits]:
            seeds = (name, ids) if ds.is_typed else ids
            yield partial(gz.NeighborDataset, ds, seeds, [3, -1], **how, **NOW)
        yield partial(gz.PackedDataset, ds, pack)
    for kind, mode, is_weighted in product(ds.edges, (None, "binary", "triplet"), (False, True)):
        counts = [ds.nodes[end].num_nodes for end in kind[::2]]
        how = {"neg_sampling": mode, "dst_weight": np.ones(counts[1]) if is_weighted else None}
        some = np.stack([np.arange(9) % count for count in counts])
        for edges in (kind, (kind, some)) if ds.is_typed else (some,):
            yield partial(gz.LinkNeighborDataset, ds, edges, [2], **how, **NOW)


def check(ids, limit, least=0):
    ids = np.asarray(getattr(ids, "indices", ids))
    assert ((ids >= least) & (ids < limit)).all()


def check_batches(ds, batches):
    for part in (batch.by_type for batch in batches):
        for name, nodes in part.n_id.items():
            check(nodes, ds.nodes[name].num_nodes)
        for kind, ends in part.edge_index.items():
            check(ends, [[len(part.n_id[end])] for end in kind[::2]])
            known = part.e_id[kind] is not None
            check(part.e_id[kind] if known else [], ds.edges[kind].graph.num_input_edges)


@contextmanager
def refusable():
    try:
        yield
    except (ValueError, IndexError, OSError) as error:
        if "out of bounds" in str(error):  # NumPy's, which does not say which file is corrupt
            raise AssertionError from error


@cache
def sound(new_folder, name, wide):
    """A dataset with a pack; `wide`: with ids of 64 bits."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (lists, row_files) if wide else ():
            patch.setattr(module, "id_dtype", lambda _: np.dtype("<u8"))
        DATASETS[name](folder := new_folder("sound") / "d")
    with gz.open(folder) as ds, suppress(ValueError):  # some have no rows to pack
        gz.pack(ds, folder / "p.pack.gd", None, [2], epochs=1, batch_size=7, resident=0.3)
    return folder


EXTENDED = pytest.param(2000, marks=[pytest.mark.extended, pytest.mark.timeout(3600)])


@pytest.mark.parametrize("examples", [30, EXTENDED])
def test_any_words_in_any_file_are_never_followed(tmp_path_factory, examples):
    """Errors of these kinds, or ids in range; a crash ends the process."""
    pytest.importorskip("torch")

    @given(name=st.sampled_from(list(DATASETS)), wide=st.booleans(), data=st.data())
    @settings(max_examples=examples, deadline=None)
    def damage_and_use(name, wide, data):
        whole = sound(tmp_path_factory.mktemp, name, wide)
        folder = shutil.copytree(whole, tmp_path_factory.mktemp("damaged") / "d")
        path = folder / data.draw(st.sampled_from(sorted(p.name for p in whole.glob("*.g[ld]"))))
        arrays = {n: values for n, values in files.read_file(path)[1].items() if len(values)}
        for section in data.draw(st.lists(st.sampled_from(list(arrays)), max_size=3)):
            at = st.lists(st.integers(0, len(arrays[section]) - 1), min_size=1, max_size=40)
            word = data.draw(WORDS | st.integers(0, 2**64 - 1)).to_bytes(8, "little")
            files.damage(
                path, section, data.draw(at), np.frombuffer(word, arrays[section].dtype)[0]
            )
        with refusable(), gz.open(folder) as ds:
            for call, limit, least in calls_of(ds):
                with refusable():
                    check(call(), limit, least)
            for loader in loaders_of(ds, folder / "p.pack.gd"):
                with refusable():
                    check_batches(ds, loader())
        shutil.rmtree(folder.parent)

    damage_and_use()


@pytest.fixture
def typed(tmp_path):
    ends = np.random.default_rng(0).integers(0, 30, (2, 300))
    how = {"order": "input", "edge_ids": True}
    gz.build(tmp_path, {CITES: ends}, nodes={"a": {}, "b": {}}, **how).close()
    return tmp_path


@pytest.mark.parametrize("value", [30, 40, 2**32 - 1])
def test_a_neighbor_beyond_the_nodes_of_its_type(typed, value):
    pytest.importorskip("torch")
    gz.reorder(typed)
    files.damage(typed / "a__cites__b.gl", "indices", 1, value)
    for call in (
        lambda ds: ds[CITES].all_edges(),
        lambda ds: [ds[CITES].neighbors(node) for node in range(30)],
        lambda ds: list(gz.LinkNeighborDataset(ds, CITES, [3])),
    ):
        with (
            gz.open(typed) as ds,
            pytest.raises(FormatError, match=r"b\.gl is corrupt: 1 .*verify"),
        ):
            call(ds)


def test_edges_to_a_type_without_nodes(typed):
    """Trees are numbered in multiples of the nodes: a division by 0 ended the process."""
    header = gz_format.read_header(path := typed / "a__cites__b.gl")
    with open(path, "r+b") as file:
        file.write(gz_format.encode_header(replace(header, num_neighbors=0)))
    files.forget_checksums(typed)
    content = (typed / MANIFEST_NAME).read_text()
    (typed / MANIFEST_NAME).write_text(content.replace('"num_nodes": 30', '"num_nodes": 0', 1))
    with pytest.raises(FormatError, match="edges, but no nodes"), gz.open(typed) as ds:
        list(gz.NeighborDataset(ds, "b", [3, 2], disjoint=True))


def test_lists_that_leave_the_file_have_no_degrees_and_edges(typed):
    with gz.open(typed) as ds, pytest.raises(IndexError, match=r"positions\[1\] = 300 is out"):
        ds.edges[CITES].edges_at([299, 300])
    files.damage(typed / "a__cites__b.gl", "indptr", 1, 2**31)
    nodes = np.arange(30)
    for call in (
        lambda ds: ds.edges[CITES].graph._csr.degrees(nodes, 1),
        lambda ds: negatives._are_edges(ds.edges[CITES], nodes, nodes),
    ):
        with gz.open(typed) as ds, pytest.raises(FormatError, match=r"b\.gl is corrupt"):
            call(ds)
