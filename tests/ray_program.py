"""What the tests of Ray start as programs: the example with a model that counts, and inference.

    python ray_program.py train LOG ...     examples/ray_train.py with the arguments that follow
    python ray_program.py infer LOG DIR OUT
    python ray_program.py tune LOG DIR OUT  two trials that have the dataset open at the same time

Each batch writes a line to LOG: the process, the number of ranks, and the epoch and the seeds.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import time
from pathlib import Path

import ray
import torch

import graphzero as gz
import graphzero.ray
from graphzero.training import infer as inference

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "ray_train.py"
SECONDS = 0.03  # of a batch at least, so that kills come in the middle
DIM, HIDDEN, CLASSES = 8, 16, 5
BATCH_EDGES = 60  # fewer than hubs have


def write(log, *line):
    with Path(log).open("a") as file:
        file.write(json.dumps([os.getpid(), *line]) + "\n")


class Times(torch.nn.Module):
    """How often the model was trained on each seed in each epoch, as a parameter.

    Its checkpoints then say which batches the training that led to them has seen.
    """

    def __init__(self, epochs, seeds):
        super().__init__()
        self.times = torch.nn.Parameter(torch.zeros(epochs, seeds))

    def forward(self, epoch, seeds):
        return self.times[epoch, seeds].sum()


def train(log):
    spec = importlib.util.spec_from_file_location("ray_train", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    sys.modules["ray_train"] = example
    spec.loader.exec_module(example)
    ray.cloudpickle.register_pickle_by_value(example)

    def loss_of(model, batch):
        time.sleep(SECONDS)
        ranks = torch.distributed.get_world_size()
        write(log, ranks, batch.stats.epoch, batch.input_id.tolist())
        # gradients are averaged over the ranks, also over those that have no batch
        return -ranks * model(batch.stats.epoch, batch.input_id)

    example.loss_of = loss_of
    example.make_model = lambda ds, args: Times(args.epochs, len(ds.splits["train"]))
    example.make_optimizer = lambda model: torch.optim.SGD(model.parameters(), lr=1)
    sys.argv = [str(EXAMPLE), *sys.argv[3:]]
    example.main()


def make_model():
    torch.manual_seed(0)
    return gz.GraphSAGE(DIM, HIDDEN, CLASSES, 2).eval()


def make_layers():
    first, second = make_model().layers

    def edges(batch):  # of the first hop: the rest of a batch are not those of its seeds
        return batch.edge_index[:, : batch.num_sampled_edges[0]]

    return [
        lambda batch: first(batch.x, edges(batch), batch.batch_size).relu(),
        lambda batch: second(batch.x, edges(batch), batch.batch_size),
    ]


def infer(log, folder, out):
    inference.OneLayer._fitting = lambda *_: BATCH_EDGES
    sys.modules["graphzero.training.layer_files"]._RECORD_EVERY = 0.0

    def slow(layer, number):
        def run(batch):
            time.sleep(3 * SECONDS)
            write(log, number)
            return layer(batch)

        return run

    layers = [slow(layer, number) for number, layer in enumerate(make_layers())]
    with gz.open(folder) as ds:
        gz.ray.infer(layers, ds, out, resume=True).close()


def shared_memory(path):
    """Bytes of a file that this process has mapped, and its share of them."""
    maps = Path("/proc/self/smaps").read_text().split(f" {path}\n")[1]
    return [int(re.search(rf"^{name}: +(\d+) kB", maps, re.M)[1]) << 10 for name in ("Rss", "Pss")]


def tune(log, folder, out):
    from ray import tune

    def trial(config):
        def wait_for(step):
            Path(out, f"{step}-{config['number']}").touch()
            while len(list(Path(out).glob(f"{step}-*"))) < 2:
                time.sleep(0.01)

        with gz.open(folder) as ds:
            ds.features.gather(range(ds.num_nodes))
            wait_for("read")
            write(log, ds.features.mapping.size, *shared_memory(ds.features.path))
            wait_for("measured")
        tune.report({"loss": 0})

    Path(out).mkdir()
    config = {"number": tune.grid_search([0, 1])}
    tune.Tuner(trial, param_space=config, run_config=tune.RunConfig(storage_path=out)).fit()


if __name__ == "__main__":
    command, log, *arguments = sys.argv[1:]
    train(log) if command == "train" else {"infer": infer, "tune": tune}[command](log, *arguments)
