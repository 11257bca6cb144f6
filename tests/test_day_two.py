"""Day two at the command line: what docs/preparing.md prints runs, and messages name options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import ogb_folders as ogb
import pandas as pd
import pytest
from cli_program import run
from payment_files import write_csv

import graphzero as gz
from graphzero.cli import make_parser
from graphzero.commands.parsing import with_options

pytestmark = pytest.mark.no_asan

PAGE = Path(__file__).resolve().parents[1] / "docs" / "preparing.md"
(DAY_TWO,) = re.findall(r"## The next day\n.*?```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
PEOPLE, OLD, NEW = np.arange(12), np.arange(10), np.arange(10, 12)


def ages(people):
    return np.stack([20 + people, people % 3], axis=1).astype(np.float32)


def write_people(path, people):
    write_csv(path, "person,age,children", people, *ages(people).astype(int).T)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files of the page, in the folder that is the present one: ends and amounts of edges."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    ends = np.hstack([rng.integers(0, 10, (2, 40)), rng.integers(0, 12, (2, 8))])
    amounts = rng.integers(0, 100, 48)
    for name, part in (("payments.csv", slice(40)), ("monday.csv", slice(40, 48))):
        write_csv(tmp_path / name, "amount,payee,payer", amounts[part], *ends[::-1, part])
    write_people(tmp_path / "people.csv", OLD)
    write_people(tmp_path / "new_people.csv", NEW)
    write_csv(
        tmp_path / "incomes.csv", "person,city,income", PEOPLE[::-1], PEOPLE, PEOPLE[::-1] * 7
    )
    lines = ["0|9", *(f"{day}|{person}" for day, person in enumerate((3, 11, 5)))]
    (tmp_path / "train.txt").write_text("\n".join(["day|person", *lines, ""]))
    return ends, amounts


def test_the_page_runs_as_it_is_printed(files, capfd):
    ends, amounts = files
    commands = DAY_TWO.replace("\\\n", " ").splitlines()
    assert [line.split()[1] for line in commands] == ["build", "append", "set", "set"]
    for line in commands:
        assert run(*shlex.split(line)[1:]) == 0, capfd.readouterr().err
    with gz.open("data") as ds:
        (edges,) = ds.edges.values()
        assert np.array_equal(edges.all_edges(), ends)
        assert np.array_equal(ds.features.gather(PEOPLE), ages(PEOPLE))
        assert ds.attributes["income"].gather(PEOPLE).ravel().tolist() == (PEOPLE * 7).tolist()
        assert ds.splits["train"].tolist() == [9, 3, 11, 5]
        (batch,) = gz.NeighborLoader(ds, [-1], batch_size=12)
        assert batch.edge_attr is None
        assert np.array_equal(batch.amount, amounts[batch.e_id])


def test_what_a_build_leaves_out_is_left_out_later(tmp_path, capfd):
    columns = np.arange(15).reshape(5, 3) % 4
    edges = write_csv(tmp_path / "e.csv", "src,dst,weight,time,note", *columns)
    left_out = ["--weight", "none", "--timestamp", "none", "--edge-attr", "none"]
    stored = ["--edge-attr", "weight", "--edge-attr", "time"]
    by_none = ["--weight-attr", "none", "--time-attr", "none"]
    for name, built, later in (("a", left_out, left_out), ("b", [*stored, *by_none], stored)):
        assert run("build", tmp_path / name, "--edges", edges, *built) == 0
        assert run("append", tmp_path / name, "--edges", edges, *later) == 0
        with gz.open(tmp_path / name) as ds:
            assert (ds.num_edges, ds.graph.weights, ds.graph.times) == (6, None, None)
            assert sorted(ds.edge_attributes) == (["time", "weight"] if name == "b" else [])
    assert capfd.readouterr().err == ""


def test_an_import_may_store_weights_without_sampling_by_them(tmp_path):
    folder = tmp_path / "dataset" / "ogbl_collab"
    ogb.write_graph(folder, ogb.random_graph(), "node_feat", "edge_weight", label=False)
    ogb.write_link_splits(folder, "time", ogb.link_splits())
    for words, has_weights in (([], True), (["--weight-attr", "none"], False)):
        assert run("import", "ogb", folder, tmp_path / "data", *words) == 0
        with gz.open(tmp_path / "data") as ds:
            assert "edge_weight" in ds.edge_attributes
            assert (ds.graph.weights is not None) is has_weights


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("build d --edges monday.csv", "say which two columns are meant with --src and --dst, by"),
        ("build d --edges plain.csv --no-header", "--src 0, --dst 1 (and --weight, --timestamp"),
        ("build d --edges far.csv", "Use --ids map, which takes such ids"),
        ("build d --edges loss.csv", "--weight none ignores the column, and --edge-attr stores"),
        ("build d --edges loss.csv --edge-attr weight", "with --weight-attr none it is"),
        ("build d --edges far.csv --memory-limit 1MB", "--memory-limit 1MB is too small"),
        ("append a --edges loss.csv --weight none", "are attributes by --edge-attr"),
        ("append a --node x=people.csv", "--id-column 0 says that the first column has the ids"),
        ("append a --header", "are for the table that --edges names"),
        ("append a --id-column 0", "--id-column is for the tables that --node names"),
        ("append a", "give --edges, --node or both"),
        ("set a --of cat --attribute z=people.csv", "--of cat: the graph has no types"),
        ("set a --split z=people.csv", "of node ids, or --columns says which it is"),
        ("import ogb my_graph d", "(OGB's add_inverse_edge), else --directed; or --name for"),
        ("build d --from d.json", "num_nodes= is for graphs without types"),  # of the file
    ],
)
def test_messages_name_the_options_of_their_command(files, capfd, command, message):
    Path("plain.csv").write_text("0,1,5\n")
    Path("far.csv").write_text("src,dst\n0,900000000\n")
    Path("loss.csv").write_text("src,dst,weight\n0,1,-2\n")
    Path("d.json").write_text('{"edges": {"p__to__p": "plain.csv"}, "num_nodes": 3}')
    if command.startswith("import"):
        ogb.write_graph(Path("my_graph"), ogb.random_graph(), "node_feat")
    known = {"src": "payer", "dst": "payee", "edge_attrs": ["amount"]}
    gz.build("a", "payments.csv", "people.csv", id_column="person", **known).close()
    assert run(*shlex.split(command)) == 1
    assert message in capfd.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("header=True or header=False, as in gz.Source(p, header=True)", "--header or --no-header"),
        ("directed=False, directed=True", "--undirected, --directed"),
        ("coalesce=True, coalesce='sum'", "--coalesce, --coalesce sum"),
        ("(weight=False, edge_attrs=[])", "(--weight none, --edge-attr none)"),
        ("edge_attrs=['a b', 'c'] stores", "--edge-attr 'a b' --edge-attr c stores"),
        ("y=gz.Source(..., columns=0)", "y = {path = ..., columns = 0} in a file for --from"),
        ("by/src=1/e.csv 'src=' f(src=1) nodes={} x.src=1",) * 2,  # no arguments, or no options
    ],
)
def test_arguments_of_python_become_options(message, shown):
    args = make_parser().parse_args(["build", "d", "--edges", "e"])
    assert with_options(message, args) == shown


def test_messages_of_python_name_its_arguments(files):
    with pytest.raises(ValueError, match=r"are meant with src= and dst=, by name"):
        gz.build("d", "monday.csv")


@pytest.mark.parametrize("kind", ["frame", "csv", "stream"])
def test_new_edges_have_the_columns_that_are_stored(tmp_path, kind):
    frame = pd.DataFrame({"src": [0, 1], "dst": [1, 0], "kind": ["pays", "owes"], "rate": [1, 2]})
    named = {"edge_attrs": ["kind", "rate"], "weight_attrs": ["rate"]}
    gz.build(tmp_path / "d", frame, directed=True, **named).close()
    new = frame.assign(kind="lends", note="x")
    path = tmp_path / "new.csv"
    new.to_csv(path, index=False)
    edges = {"frame": new, "csv": path, "stream": iter([new])}[kind]
    with pytest.warns(UserWarning, match="not used: .*note.*; the stored edges have no such"):
        ds = gz.append(tmp_path / "d", edges)
    with ds:
        assert (ds.num_edges, ds.classes) == (4, {"kind": ["owes", "pays", "lends"]})
        assert sorted(ds.rate.tolist()) == [1, 1, 2, 2]
    with pytest.raises(ValueError, match="'kind' is missing"):
        gz.append(tmp_path / "d", new.drop(columns=["kind", "note"]))
