"""Columns of edge lists: those that become attributes, and what is said of the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_program import run
from payment_files import (
    AMOUNTS,
    EDGES,
    RATES,
    check_edge_values,
    payments,
    write_csv,
)

import graphzero as gz

pytestmark = [pytest.mark.no_asan, pytest.mark.filterwarnings("error::UserWarning")]

# --- columns that are not used


def test_unused_columns_are_named_in_one_warning(tmp_path: Path) -> None:
    path = payments(tmp_path)
    said = (
        f"{path} has columns that are not used: amount, rate; edge_attrs=['amount', 'rate'] stores "
        f"them with the edges, edge_attrs=[] says that they are not needed"
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(said)}$") as caught:
        ds = gz.build(tmp_path / "d", path)
    with ds:
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert ds.sampled_by.time == "edge_time"
        assert list(ds.edge_attributes) == ["edge_time"]


def test_what_is_refused_as_weight_is_not_asked_for_again(tmp_path: Path) -> None:
    path = payments(tmp_path, "src,dst,weight,edge_weight,time")
    gz.build(tmp_path / "d", path, weight=False, timestamp=False).close()
    with pytest.warns(UserWarning, match="not used: edge_weight; edge_attrs="):
        gz.build(tmp_path / "d", path, weight="weight", timestamp=False).close()


@pytest.mark.parametrize(
    ("header", "options", "example"),
    [
        ("", {"src": 0, "dst": 1}, "{'attribute_0': 2, 'attribute_1': 3, 'attribute_2': 4}"),
        ("from,to,tx amount,rate,ts", {}, "{'attribute_0': 'tx amount', 'attribute_1': 'rate'}"),
        ("from,to,,rate,ts", {}, "{'attribute_0': 2, 'attribute_1': 'rate'}"),
        ("from,to,a,a,ts", {}, "{'attribute_0': 2, 'attribute_1': 3}"),
    ],
)
def test_the_way_out_that_is_named_works(
    tmp_path: Path, header: str, options: dict[str, Any], example: str
) -> None:
    path = payments(tmp_path, header)
    with pytest.warns(UserWarning, match=re.escape(f"edge_attrs={example} stores")):
        gz.build(tmp_path / "d", path, **options).close()
    chosen = eval(example)  # the text of our own message
    with gz.build(tmp_path / "d", path, edge_attrs=chosen, **options) as ds:
        check_edge_values(ds, attribute_0=AMOUNTS, attribute_1=RATES)


# --- columns as attributes of edges


def test_columns_become_attributes(tmp_path: Path) -> None:
    columns = [RATES, EDGES[:, 1], EDGES[:, 0], AMOUNTS.astype(np.int64)]
    path = write_csv(tmp_path / "e.csv", "rate,to,from,amount", *columns)
    for chosen in (["amount", "rate"], {"price": "amount", "share": 0}):
        with gz.build(tmp_path / "d", path, edge_attrs=chosen) as ds:
            check_edge_values(ds, **dict(zip(chosen, (columns[3], columns[0]), strict=True)))


def test_a_column_can_drive_sampling(tmp_path: Path) -> None:
    path = payments(tmp_path)
    options = {"edge_attrs": ["amount", "rate"], "timestamp": False}
    with gz.build(tmp_path / "d", path, weight_attrs="rate", time_attrs="amount", **options) as ds:
        assert (ds.sampled_by.weight, ds.sampled_by.time) == ("rate", "amount")
        ids = np.lexsort((np.arange(6), EDGES[:, 0], EDGES[:, 1]))
        assert sorted(ds.graph.weights.tolist()) == sorted(RATES[ids].tolist())


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        ("", {"edge_attrs": ["price"]}, "no column 'price' for edge_attrs; it has from, to, amo"),
        ("src,dst,a,b,c", {"edge_attrs": ["src"]}, "name one column twice"),
        ("", {"edge_attrs": ["ts"], "timestamp": "ts"}, "name one column twice"),
        ("", {"edge_attrs": {"a": 5}}, "has 5 columns, so edge_attrs=5 does not exist"),
        ("", {"edge_attrs": [2]}, r"such as edge_attrs=\{'another': 2\}"),
        ("", {"edge_attrs": 2}, "must be a list of columns"),
        ("from,to,tx amount,b,c", {"edge_attrs": ["tx amount"]}, r"edge_attrs=\{'another': 'tx am"),
        ("from,to,x,b,c", {"edge_attrs": ["x"]}, "this is a name of node attributes"),
        ("", {"edge_attrs": ["rate"], "nodes": {"rate": np.arange(5)}}, "nodes and edges both"),
    ],
)  # fmt: skip
def test_refused_edge_attrs(
    tmp_path: Path, header: str, options: dict[str, Any], message: str
) -> None:
    path = payments(tmp_path, header or "from,to,amount,rate,ts")
    with pytest.raises(ValueError, match=message):
        gz.build(tmp_path / "d", path, **options)
    assert not (tmp_path / "d" / "dataset.json").exists()


def test_attributes_are_given_once(tmp_path: Path) -> None:
    path = payments(tmp_path)
    edges = {"edge_index": path, "rate": np.arange(6)}
    with pytest.raises(ValueError, match="'rate' would be stored twice.*edge_attrs"):
        gz.build(tmp_path / "d", edges, edge_attrs=["rate"])
    with pytest.raises(ValueError, match=r"edge_attrs= names columns of a table, and edges is an"):
        gz.build(tmp_path / "d", EDGES, edge_attrs=["rate"])
    gz.build(tmp_path / "d", EDGES, edge_attrs=[]).close()
    text = write_csv(tmp_path / "t.csv", "src,dst,note", EDGES[:, 0], EDGES[:, 1], "abcdef")
    with pytest.raises(ValueError, match=r"t\.csv, line 2: 'a' is not a note"):
        gz.build(tmp_path / "d", text, edge_attrs=["note"])


# --- the command line


def test_the_command_has_the_same_options(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = payments(tmp_path)
    words = ["build", tmp_path / "d", "--edges", path]
    assert run(*words) == 0
    out, err = capfd.readouterr()
    assert out.splitlines()[-1] == (
        "read src=from, dst=to, timestamp=ts; ignored amount, rate; in-neighbours; directed"
    )
    assert err == ""
    assert run(*words, "--undirected", "--weight", "rate") == 0
    assert capfd.readouterr().out.splitlines()[-1] == (
        "read src=from, dst=to, weight=rate, timestamp=ts; ignored amount; in-neighbours; "
        "undirected, both directions stored"
    )
    assert run(*words, "--edge-attr", "amount", "--edge-attr", "rate") == 0
    assert "edge_attrs=amount,rate; in-neighbours" in capfd.readouterr().out
    with gz.open(tmp_path / "d") as ds:
        check_edge_values(ds, amount=AMOUNTS, rate=RATES)
