"""The code of docs/coming-from-pyg.md and docs/all-nodes.md, run as it is printed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import torch_geometric.transforms as T  # noqa: E402
from torch_geometric import typing  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.nn import GraphSAGE, Node2Vec, to_hetero  # noqa: E402

from graphzero.pyg import from_data  # noqa: E402

DOCS = Path(__file__).resolve().parents[1] / "docs"
TEXT = "".join((DOCS / f"{page}.md").read_text() for page in ("coming-from-pyg", "all-nodes"))
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
# What the page leaves to the reader.
NEEDED = {
    "# with PyG and pyg-lib": typing.WITH_PYG_LIB,
    "# with PyG": typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE,
    "# with Lightning": importlib.util.find_spec("lightning") is not None,
}

# Minutes of training in scripts: what they use is sanitized by the tests of its own.
pytestmark = pytest.mark.no_asan


def load():
    rng = torch.Generator().manual_seed(0)
    part = torch.randint(0, 3, (300,), generator=rng)
    return Data(
        x=torch.randn(300, 8, generator=rng),
        edge_index=torch.randint(0, 300, (2, 2000), generator=rng),
        y=torch.randint(0, 4, (300,), generator=rng),
        train_mask=part == 0,
        val_mask=part == 1,
        test_mask=part == 2,
    )


def load_temporal():
    data = load()
    data.time = torch.arange(300) % 50
    return data


def load_typed():
    of_papers = load()
    data = HeteroData()
    for name in ("x", "y", "train_mask"):
        data["paper"][name] = of_papers[name]
    data["author"].x = torch.randn(40, 8)
    data["author", "writes", "paper"].edge_index = torch.stack(
        [torch.randint(0, 40, (900,)), torch.randint(0, 300, (900,))]
    )
    return T.ToUndirected()(data)


class Embeddings(torch.nn.Module):
    """PyG's Node2Vec, whose constructor needs pyg-lib, with its own loss."""

    loss, EPS = Node2Vec.loss, 1e-15

    def __init__(self, embedding):
        super().__init__()
        self.embedding, self.embedding_dim = embedding, embedding.embedding_dim


def lightning_parts():
    from lightning.pytorch import LightningModule, Trainer

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.model = GraphSAGE(8, 16, 2, 4)

        def training_step(self, batch, batch_idx):
            out = self.model(batch.x, batch.edge_index)[: batch.batch_size]
            return torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = Trainer(accelerator="cpu", devices=1, max_epochs=1, **options)
    return {"module": Module(), "trainer": trainer}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_code_of_the_page_runs(tmp_path, monkeypatch, number):
    block = BLOCKS[number]
    for mark, present in NEEDED.items():
        if block.startswith(mark) and not present:
            pytest.skip(f"this block needs what is not installed: {mark}")
    monkeypatch.chdir(tmp_path)
    import graphzero.pyg

    stored = from_data(load(), "store")
    names = {
        "F": torch.nn.functional,
        "T": T,
        "NeighborLoader": graphzero.pyg.NeighborLoader,
        "data": stored,
        "load": load,
        "load_temporal": load_temporal,
        "load_typed": load_typed,
        "to_hetero": to_hetero,
        "model": GraphSAGE(8, 16, 2, 4),
    }
    if block.startswith("# with Lightning"):
        names |= lightning_parts()
    exec(compile(block, f"block {number}", "exec"), names)
    if "loss =" in block:
        assert torch.isfinite(names["loss"])
    if "WalkLoader" in block:
        loss_of_pyg = Embeddings(names["embedding"]).loss(names["pos_rw"], names["neg_rw"])
        torch.testing.assert_close(names["loss"], loss_of_pyg, rtol=0.01, atol=0)
    elif "loader =" in block:
        assert next(iter(names["loader"])).num_nodes > 0
    if "conv((x" in block:  # the seeds' rows are those of the whole batch
        whole = names["model"].eval()(names["batch"].x, names["batch"].edge_index)
        torch.testing.assert_close(names["x"], whole[: names["batch"].batch_size])
    if "train = " in block:
        assert sum(batch.batch_size for batch in names["val"]) == int(load().val_mask.sum())
