"""The code of docs/preparing.md, as printed: each way of preparing gives the same dataset."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphzero as gz

pytestmark = [pytest.mark.extended, pytest.mark.no_asan]

PAGE = Path(__file__).resolve().parents[1] / "docs" / "preparing.md"
BLOCKS = dict(re.findall(r"## ([^\n]*)\n+```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
PAPERS, LINKS = 40, 300


def write_inputs(folder: Path) -> np.ndarray:
    ends = np.random.default_rng(0).integers(0, PAPERS, (LINKS, 2))
    links = [f"p{a},p{b},{i / 2}" for i, (a, b) in enumerate(ends)]
    papers = [f"p{i},{i * 10},{1900 + i}" for i in range(PAPERS)]
    (folder / "links.csv").write_text("\n".join(["src,dst,weight", *links, ""]))
    (folder / "papers.csv").write_text("\n".join(["id,words,year", *papers, ""]))
    return ends


@pytest.mark.parametrize(
    ("block", "needs"), [("Spark", "pyspark"), ("Dask", "dask"), ("Ray Data", "ray")]
)
def test_what_a_cluster_writes_is_built(tmp_path, monkeypatch, block, needs):
    pytest.importorskip(needs)
    if needs == "pyspark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    ends = write_inputs(tmp_path)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    subprocess.run([sys.executable, "-c", BLOCKS[block]], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS["Then build"], found := {})
    ds: gz.Dataset = found["ds"]
    assert ds.features is not None
    years = ds.features.gather(ds.lookup([f"p{i}" for i in range(PAPERS)]))[:, 1]
    assert years.tolist() == [1900 + i for i in range(PAPERS)]
    assert ds.attributes["year"].gather(ds.lookup(["p3"])).ravel().tolist() == [1903]
    weights = ds.edge_attributes["edge_weight"].get_tensor()
    kept = np.flatnonzero(ends[:, 0] != ends[:, 1]) / 2
    assert sorted(np.asarray(weights).tolist()) == kept.tolist()
