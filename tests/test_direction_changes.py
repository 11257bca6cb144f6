"""Negatives of directed graphs, changing what is stored, folders of version 1, commands."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import files
import numpy as np
import pytest
import reference_negatives
from directed import CHAIN, ORDERS, SMALL, built
from loaders import loader_of

import graphzero as gz
from graphzero.cli import main
from graphzero.store.manifest import read_manifest


def as_version_1(folder):
    """Makes the folder one of before the manifest named the direction."""
    path = Path(folder) / "dataset.json"
    content = json.loads(path.read_text())
    content["version"] = 1
    del content["neighbors"], content["out_graph"]
    path.write_text(json.dumps(content))


# ---- negatives


@pytest.mark.parametrize("order", ["input", "hot"])
@pytest.mark.parametrize("num_edges", [150, 1300])  # of 600 pairs: sparse and dense
def test_negatives_are_no_edges_in_the_users_direction(tmp_path, order, num_edges):
    torch = pytest.importorskip("torch")
    edges = np.random.default_rng(5).integers(0, 25, (num_edges, 2))
    naive = files.write_dataset(tmp_path / "d", edges, 25, incoming=True, order=order)
    seeds, every = edges[:20].T.copy(), {tuple(edge) for edge in edges.tolist()}
    with gz.open(tmp_path / "d") as ds:
        for mode, amount in (("binary", 4), ("triplet", 4)):
            how = {"neg_sampling": mode, "amount": amount, "batch_size": 20, "seed": 5}
            (batch,) = loader_of(gz.LinkNeighborDataset(ds, seeds, [2], **how))
            if mode == "binary":
                pairs = batch.n_id[batch.edge_label_index][:, 20:].numpy()
                expected = reference_negatives.pairs(naive, 80, seed=5)
            else:
                negatives = batch.n_id[batch.dst_neg_index]
                pairs = torch.stack(
                    [batch.n_id[batch.src_index].repeat_interleave(4), negatives.reshape(-1)]
                )
                pairs = pairs.numpy()
                drawn = reference_negatives.destinations(naive, *seeds, 4, seed=5)
                expected = np.stack([np.repeat(seeds[0], 4), drawn])
            np.testing.assert_array_equal(pairs, expected)
            assert not {tuple(pair) for pair in pairs.T.tolist()} & every
            assert (pairs[0] != pairs[1]).all()


def test_a_source_with_edges_to_all_nodes_is_found_in_their_lists(tmp_path):
    pytest.importorskip("torch")
    edges = [[7, node] for node in range(10)] + [[0, 1], [3, 7], [2, 5]]
    with built(tmp_path / "d", edges) as ds:
        with pytest.raises(ValueError, match=r"edge_label_index\[0\]\[1\] = 7 has every node"):
            gz.LinkNeighborDataset(ds, [[0, 7], [1, 2]], [2], neg_sampling="triplet")
        gz.LinkNeighborDataset(ds, [[0, 3], [1, 7]], [2], neg_sampling="triplet")
    for count in (1, 2, 3):  # with fewer than three nodes there is no list to look at
        every = [[u, v] for u in range(count) for v in range(count)]
        with (
            built(tmp_path / str(count), every) as ds,
            pytest.raises(ValueError, match="has every"),
        ):
            gz.LinkNeighborDataset(ds, [[0], [0]], [2], neg_sampling="triplet")


# ---- reordering, and folders of version 1


@pytest.mark.parametrize("order", ORDERS)
def test_reorder_turns_the_lists(tmp_path, order):
    edges, rows = files.random_edges(50, 400), np.arange(100.0).reshape(50, 2)
    how = {"weight": np.arange(400.0), "timestamp": np.arange(400) % 9, "features": rows}
    for neighbors in ("in", "out", "both"):
        built(tmp_path / neighbors, edges, order, neighbors=neighbors, **how).close()
    built(tmp_path / "d", edges, "hot", neighbors="out", **how).close()
    presample = {"presample": SMALL} if order == "presample" else {}
    for neighbors in ("in", "both", "out", "both", "in", "out"):
        with gz.reorder(tmp_path / "d", order, neighbors=neighbors, **presample) as ds:
            assert ds.neighbors == neighbors
        names = {path.name for path in (tmp_path / neighbors).iterdir()}
        visits = set() if order == "presample" else {"visits.gd"}
        assert {path.name for path in (tmp_path / "d").iterdir()} - visits == names
        if order == "presample":  # counts, and so the order, depend on the order before
            continue
        for name in names - {"dataset.json"}:
            found, expected = ((tmp_path / d / name).read_bytes() for d in ("d", neighbors))
            assert found == expected, (neighbors, name)
    kept = gz.reorder(tmp_path / "d", "input")
    assert kept.neighbors == "out"
    kept.close()


def test_a_folder_of_version_1_has_out_neighbours_and_warns_once(tmp_path):
    pytest.importorskip("torch")
    built(tmp_path, CHAIN, neighbors="out", features=np.eye(4)).close()
    as_version_1(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = gz.open(tmp_path)
        assert ds.neighbors == "out"
        assert ds.graph.random_walk([3], 2).tolist() == [[3, 2, 1]]
    with pytest.warns(UserWarning, match="against the edges.*'hot', neighbors='in'") as caught:
        gz.NeighborDataset(ds, [0], [2])
    assert Path(caught[0].filename) == Path(__file__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gz.NeighborDataset(ds, [0], [2])
    ds.close()
    with gz.open(tmp_path) as ds, pytest.warns(UserWarning, match="against the edges"):
        gz.LinkNeighborDataset(ds, [[0], [1]], [2])
    assert json.loads((tmp_path / "dataset.json").read_text())["version"] == 1


def test_a_folder_of_version_1_stays_one_until_the_direction_is_chosen(tmp_path):
    pytest.importorskip("torch")
    built(tmp_path, CHAIN, neighbors="out").close()
    as_version_1(tmp_path)
    gz.reorder(tmp_path, "input").close()
    assert read_manifest(tmp_path).neighbors is None
    before = (tmp_path / "graph.gl").stat().st_ino
    gz.reorder(tmp_path, "input", neighbors="out").close()
    assert (tmp_path / "graph.gl").stat().st_ino == before  # nothing but the manifest changes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gz.open(tmp_path) as ds:
            gz.NeighborDataset(ds, [0], [2])
    as_version_1(tmp_path)
    with gz.reorder(tmp_path, "hot", neighbors="in") as ds:
        assert (ds.neighbors, ds.graph.neighbors(1).tolist()) == ("in", [0, 2])


def test_an_undirected_folder_of_version_1_does_not_warn(tmp_path):
    pytest.importorskip("torch")
    built(tmp_path, CHAIN, directed=False).close()
    as_version_1(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gz.open(tmp_path) as ds:
            gz.NeighborDataset(ds, [0], [2])
            assert ds.neighbors == "both"


# ---- the command line


def test_the_command_line_says_the_direction(tmp_path, capsys):
    (tmp_path / "e.csv").write_text("0,1\n0,2\n2,1\n")
    words = ["build", str(tmp_path / "d"), "--edges", str(tmp_path / "e.csv")]
    for more, neighbors, text in (
        ([], "in", "directed, in-neighbours sampled"),
        (["--neighbors", "out"], "out", "directed, out-neighbours sampled"),
        (["--neighbors", "both"], "both", "in-neighbours sampled, out-neighbours stored as well"),
        (["--undirected"], "both", "undirected, both directions stored"),
    ):
        assert main([*words, *more]) == 0
        assert text in capsys.readouterr().out
        assert main(["info", str(tmp_path / "d")]) == 0
        assert text in capsys.readouterr().out
        assert main(["info", str(tmp_path / "d"), "--json"]) == 0
        content = json.loads(capsys.readouterr().out)
        assert content["neighbors"] == neighbors
        names = [file["name"] for file in content["files"]]
        assert ("graph_out.gl" in names) == ("graph_out" in text or more == ["--neighbors", "both"])
        with gz.open(tmp_path / "d") as ds:
            assert f"neighbors={neighbors!r}" in repr(ds)
        assert main(["verify", str(tmp_path / "d")]) == 0
        capsys.readouterr()
    main(words)
    assert main(["reorder", str(tmp_path / "d"), "--order", "hot", "--neighbors", "both"]) == 0
    assert "out-neighbours stored as well" in capsys.readouterr().out
    file = tmp_path / "d" / "graph_out.gl"
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    assert main(["verify", str(tmp_path / "d")]) == 1
    assert "graph_out.gl: section" in capsys.readouterr().err
    with pytest.raises(gz.FormatError, match=r"graph_out\.gl"):
        gz.reorder(tmp_path / "d", "input")
