"""OGB's datasets for links, and the reader of arrays in ``.pt`` files that their splits need."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import ogb_folders as ogb
import pytest
import torch
from peak_memory import peak_of

import graphzero as gz
from graphzero.cli import main
from graphzero.ingest.sources.pickled_arrays import read_pickled_arrays
from graphzero.ingest.sources.streamed_array import pieces_of

# Python only: the C code below it is sanitized by other tests of the build.
pytestmark = pytest.mark.no_asan


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.g[ld]")}


def check_links(out: Path, splits: dict[str, ogb.Arrays]) -> None:
    """The folder ``links`` has what `get_edge_split` returns, and nothing else."""
    files = {str(path.relative_to(out / "links")) for path in (out / "links").rglob("*.npy")}
    assert files == {
        f"{'val' if split == 'valid' else split}/{name}.npy"
        for split, arrays in splits.items()
        for name in arrays
    }
    for split, arrays in splits.items():
        for name, expected in arrays.items():
            path = out / "links" / ("val" if split == "valid" else split) / f"{name}.npy"
            found = np.load(path, mmap_mode="r")
            assert found.dtype.kind == "U" or found.dtype == expected.dtype
            assert np.array_equal(found, expected), path


CASES = {
    "ogbl-collab": ("time", "pairs", False),
    "ogbl-ddi": ("target", "pairs", False),
    "ogbl-citation2": ("time", "citation", True),
    "ogbl-wikikg2": ("time", "triples", True),
}


@pytest.mark.parametrize("name", CASES)
def test_link_datasets(tmp_path: Path, name: str) -> None:
    kind, form, directed = CASES[name]
    folder = tmp_path / name.replace("-", "_")
    graph, splits = ogb.random_graph(), ogb.link_splits(form)
    more = {
        "ogbl-collab": ("node_feat", "edge_weight", "edge_year"),
        "ogbl-citation2": ("node_feat", "node_year"),
    }.get(name, ())
    ogb.write_graph(folder, graph, *more, label=False)
    ogb.write_link_splits(folder, kind, splits)
    edges = {n: graph[n][:, 0] for n in more if n.startswith("edge_")}
    nodes = {n: graph[n] for n in more if n == "node_feat"}
    nodes = {"x": nodes["node_feat"]} if nodes else {}
    if "node_year" in more:
        nodes["year"] = graph["node_year"][:, 0]
    edges["edge_index"] = graph["edge_index"]
    plain = gz.build(tmp_path / "plain", edges, nodes=nodes, num_nodes=ogb.NODES, directed=directed)
    plain.close()
    with gz.from_ogb(folder, tmp_path / "data") as ds:
        assert not ds.splits
        assert ds.graph.is_directed == directed
        assert ds.graph.num_input_edges == ogb.EDGES  # none of the validation or the test
    assert files_of(tmp_path / "data") == files_of(tmp_path / "plain")
    check_links(tmp_path / "data", splits)


def test_the_arrays_are_seeds_of_a_loader(tmp_path: Path) -> None:
    folder = tmp_path / "ogbl_ppa"
    ogb.write_graph(folder, ogb.random_graph(), "node_feat", label=False)
    ogb.write_link_splits(folder, "throughput", ogb.link_splits("pairs"))
    with gz.from_ogb(folder, tmp_path / "data") as ds:
        for name in ("edge", "edge_neg"):
            seeds = np.load(tmp_path / "data" / "links" / "val" / f"{name}.npy", mmap_mode="r")
            loader = gz.LinkNeighborLoader(ds, [2, 2], edge_label_index=seeds.T, batch_size=4)
            found = [batch.n_id[batch.edge_label_index].numpy() for batch in loader]
            assert np.array_equal(np.concatenate(found, axis=1), seeds.T)


def test_a_binary_dataset_with_both_directions_in_its_list(tmp_path: Path) -> None:
    folder = tmp_path / "ogbl_vessel"
    graph, splits = ogb.random_graph(), ogb.link_splits("pairs")
    ogb.write_binary_graph(folder, graph, "node_feat", label=False)
    (folder / "split" / "spatial").mkdir(parents=True)
    torch.save(splits, folder / "split" / "spatial" / "split_dict.pt")
    with gz.from_ogb(folder, tmp_path / "data") as ds:
        assert ds.graph.is_directed
    gz.build(tmp_path / "plain", graph["edge_index"], graph["node_feat"]).close()
    assert files_of(tmp_path / "data") == files_of(tmp_path / "plain")
    check_links(tmp_path / "data", splits)


def test_links_of_a_graph_that_is_none_of_ogbs(tmp_path: Path) -> None:
    folder, splits = tmp_path / "mine", ogb.link_splits("citation")
    ogb.write_graph(folder, ogb.random_graph(), label=False)
    (folder / "split" / "random").mkdir(parents=True)
    torch.save(splits, folder / "split" / "random" / "split_dict.pt")
    gz.from_ogb(folder, tmp_path / "data", directed=True).close()
    check_links(tmp_path / "data", splits)


def test_links_of_a_graph_with_types(tmp_path: Path) -> None:
    folder = tmp_path / "ogbl_biokg"
    graph = {**ogb.random_typed_graph(), "node_feat": {}, "node_year": {}, "label": {}}
    splits = ogb.link_splits("biokg")
    ogb.write_typed_graph(folder, graph)
    ogb.write_link_splits(folder, "random", splits)
    gz.from_ogb(folder, tmp_path / "data").close()
    gz.build(
        tmp_path / "plain",
        {
            key: {"edge_index": pairs, "edge_reltype": graph["edge_reltype"][key][:, 0]}
            for key, pairs in graph["edge_index"].items()
        },
        nodes={kind: {"num_nodes": n} for kind, n in graph["num_nodes"].items()},
    ).close()
    assert files_of(tmp_path / "data") == files_of(tmp_path / "plain")
    check_links(tmp_path / "data", splits)


def test_another_import_replaces_the_arrays_and_keeps_foreign_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "ogbl_ddi", tmp_path / "data"
    ogb.write_graph(folder, ogb.random_graph(), label=False)
    ogb.write_link_splits(folder, "target", ogb.link_splits("pairs"))
    (out / ".links.999999999.new").mkdir(parents=True)  # of an import that was killed
    assert main(["import", "ogb", str(folder), str(out)]) == 0
    assert f"{out}/links: arrays of train, val, test" in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == ["links"]
    with pytest.raises(FileNotFoundError):
        (folder / "raw" / "edge.csv.gz").rename(tmp_path / "away")
        gz.from_ogb(folder, out)
    check_links(out, ogb.link_splits("pairs"))
    (tmp_path / "away").rename(folder / "raw" / "edge.csv.gz")
    citation = ogb.link_splits("citation")
    for split, arrays in citation.items():
        torch.save(arrays, folder / "split" / "target" / f"{split}.pt")
    gz.from_ogb(folder, out).close()
    check_links(out, citation)
    (out / "links" / ".graphzero").unlink()
    with pytest.raises(FileExistsError, match="not from an import"):
        gz.from_ogb(folder, out)
    ogb.write_graph(tmp_path / "ogbn_arxiv", ogb.random_graph())
    ogb.write_node_splits(tmp_path / "ogbn_arxiv", "time", ogb.random_splits())
    gz.from_ogb(tmp_path / "ogbn_arxiv", out).close()
    check_links(out, citation)


def test_a_build_that_fails_leaves_no_arrays(tmp_path: Path) -> None:
    folder, out = tmp_path / "ogbl_ddi", tmp_path / "data"
    graph = ogb.random_graph()
    graph["edge_index"][0, 5] = 99
    ogb.write_graph(folder, graph, label=False)
    ogb.write_link_splits(folder, "target", ogb.link_splits("pairs"))
    with pytest.raises(ValueError, match="99"):
        gz.from_ogb(folder, out)
    assert [path.name for path in out.rglob("*") if "links" in path.name] == []


# --- arrays in .pt files

ARRAYS = {
    "pairs": np.arange(40_000).reshape(-1, 2) << 20,
    "columns": np.asfortranarray(np.arange(12).reshape(4, 3)),
    "big_endian": np.arange(5, dtype=">i4"),
    "floats": np.random.default_rng(1).random(9, np.float32),
    "flags": np.array([True, False]),
    "nothing": np.empty((0, 2), np.int64),
}


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"pickle_protocol": 3},
        {"pickle_protocol": 4},
        {"_use_new_zipfile_serialization": False},
    ],
    ids=str,
)
def test_arrays_of_numpy_in_every_form_of_file(tmp_path: Path, how: dict[str, Any]) -> None:
    path = tmp_path / "arrays.pt"
    torch.save({**ARRAYS, "texts": ["a", "b"], "inner": {"flags": ARRAYS["flags"]}}, path, **how)
    found = read_pickled_arrays(path)
    assert found["texts"] == ["a", "b"]
    assert set(found["inner"]) == {"flags"}
    for name, expected in ARRAYS.items():
        array = found[name]
        assert (array.shape, array.dtype) == (expected.shape, expected.dtype), name
        pieces = [piece.copy() for piece in pieces_of(array, 1000)]
        whole = np.concatenate(pieces) if pieces else expected[:0]
        assert np.array_equal(whole, expected), name


def test_tensors_beside_arrays(tmp_path: Path) -> None:
    whole = torch.arange(20).reshape(10, 2)
    torch.save({"whole": whole, "part": whole[4:], "half": whole.half()}, tmp_path / "t.pt")
    found = read_pickled_arrays(tmp_path / "t.pt")
    for name, expected in (("whole", whole), ("part", whole[4:]), ("half", whole.half())):
        assert np.array_equal(np.concatenate(list(pieces_of(found[name], 3))), expected.numpy())
    for save, message in (
        (
            lambda p: torch.save({"t": whole.T}, p),
            r"t.pt:t is a tensor that .*, as tensor.contiguous",
        ),
        (
            lambda p: torch.save({"t": whole}, p, _use_new_zipfile_serialization=False),
            "t.pt:t is a tensor that cannot be read in pieces",
        ),
    ):
        save(tmp_path / "t.pt")
        with pytest.raises(ValueError, match=message):
            read_pickled_arrays(tmp_path / "t.pt")


class _Runs:
    def __reduce__(self) -> Any:
        return print, ("executed",)


def test_nothing_in_a_file_is_executed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.pt"
    torch.save({"edge": _Runs()}, path)
    with pytest.raises(ValueError, match=r"bad.pt: has an object of \w+.print, and only arrays"):
        read_pickled_arrays(path)
    torch.save({"edge": np.array([{}], dtype=object)}, path)
    with pytest.raises(ValueError, match="bad.pt:edge holds Python objects"):
        read_pickled_arrays(path)
    assert capsys.readouterr().out == ""


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.pt"
    torch.save({"edge": ARRAYS["pairs"]}, path, _use_new_zipfile_serialization=False)
    data = path.read_bytes()
    for content in (b"", b"nothing", pickle.dumps(3), data[:50], data[:200]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"bad.pt"):
            read_pickled_arrays(path)
    path.write_bytes(data[: len(data) // 2])  # within the array
    with pytest.raises(ValueError, match=r"bad.pt"):
        for array in read_pickled_arrays(path).values():
            list(pieces_of(array, 1000))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other", b"")
    with pytest.raises(ValueError, match="bad.pt.*has no data.pkl"):
        read_pickled_arrays(path)


_IMPORTS = """
from pathlib import Path
from graphzero.ingest.sources.pickled_arrays import read_pickled_arrays
from graphzero.ingest.sources.streamed_array import pieces_of
"""
_WORK = """
array = read_pickled_arrays(Path(sys.argv[1]))["edge"]
assert sum(len(piece) for piece in pieces_of(array, 1 << 12)) == 1 << 21
"""


@pytest.mark.parametrize("zipped", [True, False])
def test_long_arrays_are_not_held_in_memory(tmp_path: Path, zipped: bool) -> None:
    array = np.random.default_rng(0).integers(0, 1 << 40, (1 << 21, 2))  # 32 MiB
    path = tmp_path / "edge.pt"
    torch.save({"edge": array}, path, _use_new_zipfile_serialization=zipped)
    assert peak_of(tmp_path, _IMPORTS, _WORK, path) < 8 << 20


def test_splits_must_be_dictionaries_of_arrays(tmp_path: Path) -> None:
    folder = tmp_path / "ogbl_ddi"
    ogb.write_graph(folder, ogb.random_graph(), label=False)
    splits: dict[str, Any] = {**ogb.link_splits("pairs"), "test": [1, 2]}
    ogb.write_link_splits(folder, "target", splits)
    with pytest.raises(ValueError, match=r"test.pt must be a dictionary of arrays"):
        gz.from_ogb(folder, tmp_path / "data")
    torch.save({"train": splits["train"]}, folder / "split" / "target" / "split_dict.pt")
    with pytest.raises(ValueError, match=r"must have train, valid and test; it has train"):
        gz.from_ogb(folder, tmp_path / "data")
