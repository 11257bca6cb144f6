"""Ctrl-C while a model is trained: what is kept, at which moment it is honoured."""

from __future__ import annotations

import json
import os
import signal
import threading

import numpy as np
import pytest
from torch.utils.data import DataLoader, IterableDataset

import graphzero as gz
from graphzero.cli import main
from graphzero.training import evaluate, fit
from graphzero.training import train as training
from graphzero.training.interrupts import Interrupts, TrainingInterrupted, ignore_interrupts, start

train = training.train
OPTIONS = {"epochs": 5, "batch_size": 4, "fanouts": [2], "hidden": 4}


@pytest.fixture(autouse=True)
def python_handles_sigint():
    """Whoever runs the tests may have chosen to ignore the signal."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "it must be put back"
    signal.signal(signal.SIGINT, earlier)


@pytest.fixture
def folder(tmp_path):
    """Twelve nodes on a ring: two batches of training an epoch, one of validation."""
    ring = np.stack([np.arange(12), (np.arange(12) + 1) % 12], axis=1)
    rows = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
    splits = {"train": np.arange(8), "val": np.arange(8, 12)}
    gz.build(tmp_path / "d", ring, rows, np.arange(12) % 2, splits).close()
    return tmp_path / "d"


@pytest.fixture
def ds(folder):
    with gz.open(folder) as dataset:
        yield dataset


@pytest.fixture
def press(monkeypatch):
    """Has Ctrl-C pressed in given batches, counted from 1: so many times in each."""

    def install(module, presses):
        count, forward = iter(range(1, 1000)), module.forward_seeds

        def pressed(*words):
            for _ in range(presses.get(next(count), 0)):
                signal.raise_signal(signal.SIGINT)
            return forward(*words)

        monkeypatch.setattr(module, "forward_seeds", pressed)
        return count

    return install


def interrupted(ds, **options):
    with pytest.raises(TrainingInterrupted) as caught:
        train(ds, **OPTIONS, **options)
    return caught.value


def test_the_epochs_that_have_ended_are_kept(ds, tmp_path, press):
    batches = press(fit, {5: 1})  # the first of two batches of epoch 3
    outputs = {"save": tmp_path / "m.pt", "predictions": tmp_path / "p.npz"}
    told = []
    error = interrupted(ds, on_interrupt=told.append, **outputs)
    report = error.report
    assert next(batches) == 6, "no batch after that in which Ctrl-C was pressed"
    assert str(error) == "interrupted after epoch 2"
    assert [epoch.epoch for epoch in report.epochs] == [1, 2]
    assert told == [report.epochs[-1]]
    assert report.interrupted
    assert not report.evaluation_interrupted
    assert set(report.splits) == {"train", "val"}
    best = report.epochs[report.best_epoch - 1].val_accuracy
    assert report.splits["val"].accuracy == best
    gz.GraphSAGE.from_saved(tmp_path / "m.pt")
    with np.load(tmp_path / "p.npz") as found:
        assert len(found["node_id"]) == 12


def test_the_epochs_before_are_those_of_a_shorter_training(ds, press):
    shorter = train(ds, **{**OPTIONS, "epochs": 2})
    press(fit, {5: 1})
    report = interrupted(ds).report
    assert [e.loss for e in report.epochs] == [e.loss for e in shorter.epochs]
    assert report.splits == shorter.splits


def test_validation_is_interrupted_too(ds, press):
    press(evaluate, {3: 1})  # epoch 3, after its training
    assert len(interrupted(ds).report.epochs) == 2


def test_before_the_first_epoch_has_ended_nothing_is_written(ds, tmp_path, press):
    press(evaluate, {1: 1})
    earlier = tmp_path / "p.csv"
    earlier.write_text("of before")
    error = interrupted(ds, save=tmp_path / "m.pt", predictions=earlier)
    assert error.report is None
    assert "ended: nothing was written" in str(error)
    assert sorted(os.listdir(tmp_path)) == ["d", "p.csv"]
    assert earlier.read_text() == "of before"


def test_a_second_ctrl_c_skips_the_evaluation(ds, tmp_path, press):
    press(fit, {3: 1})
    press(evaluate, {3: 1})  # validation of epoch 1, then the splits: train has two batches
    error = interrupted(ds, save=tmp_path / "m.pt", predictions=tmp_path / "p.npz")
    assert error.report.evaluation_interrupted
    assert error.report.splits == {}
    assert (tmp_path / "m.pt").exists()
    assert not (tmp_path / "p.npz").exists()


def test_splits_that_were_evaluated_are_kept(ds, press):
    press(evaluate, {5 + 3: 1})  # five validations; the third batch after them is of the split val
    report = interrupted(ds).report
    assert len(report.epochs) == 5
    assert set(report.splits) == {"train"}
    assert report.evaluation_interrupted


def test_pressing_twice_in_one_batch_ends_it_at_once(ds, press):
    trained = []
    press(fit, {3: 2})
    error = interrupted(ds, on_epoch=trained.append)
    assert len(trained) == len(error.report.epochs) == 1


def test_ctrl_c_while_predictions_are_written_is_not_lost(ds, tmp_path, monkeypatch):
    write = training.write_predictions

    def pressed(*words):
        signal.raise_signal(signal.SIGINT)
        write(*words)

    monkeypatch.setattr(training, "write_predictions", pressed)
    report = interrupted(ds, predictions=tmp_path / "p.npz").report
    assert len(report.epochs) == 5
    assert (tmp_path / "p.npz").exists()
    assert not report.evaluation_interrupted


def test_ctrl_c_while_the_first_epoch_is_saved_loses_neither_file_nor_report(
    ds, tmp_path, monkeypatch
):
    write, presses = training.SavedModel.write, iter([2])

    def pressed(model, path):
        for _ in range(next(presses, 0)):
            signal.raise_signal(signal.SIGINT)  # the second one is honoured at once
        write(model, path)

    monkeypatch.setattr(training.SavedModel, "write", pressed)
    report = interrupted(ds, save=tmp_path / "m.pt").report
    assert [epoch.epoch for epoch in report.epochs] == [1]
    assert report.best_epoch == 1
    assert gz.GraphSAGE.from_saved(tmp_path / "m.pt").arguments["in_dim"] == 3


def test_another_handler_stays(ds):
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        train(ds, on_epoch=lambda _: signal.raise_signal(signal.SIGINT), **OPTIONS)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert len(seen) == 5


def test_a_keyboard_interrupt_of_another_origin_is_the_same(ds):
    def stop(epoch):
        if epoch.epoch == 2:
            raise KeyboardInterrupt

    assert len(interrupted(ds, on_epoch=stop).report.epochs) == 2


def test_training_in_another_thread(ds):
    reports = []
    thread = threading.Thread(target=lambda: reports.append(train(ds, **OPTIONS)))
    thread.start()
    thread.join()
    assert len(reports[0].epochs) == 5


def test_requests_are_honoured_once():
    interrupts = Interrupts()
    with interrupts.deferred():
        interrupts.check()
        signal.raise_signal(signal.SIGINT)
        assert interrupts.pending
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.check()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert not interrupts.pending


class Signals(IterableDataset):
    """Whether SIGINT is blocked, and whether it is ignored, where the data is loaded."""

    def __iter__(self):
        blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        yield blocked, signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_workers_do_not_get_the_signal():
    def where(workers, **options):
        return next(start(DataLoader(Signals(), batch_size=None, num_workers=workers, **options)))

    assert where(0) == [False, False]
    assert where(1, multiprocessing_context="fork") == [True, False], "from the beginning"
    assert where(1, worker_init_fn=ignore_interrupts)[1], "however workers are started"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


# --- the command


def command(folder, *words):
    options = ["--epochs", "5", "--batch-size", "4", "--fanouts", "2", "--hidden", "4"]
    return main(["train", str(folder), *options, *map(str, words)])


def test_the_command_writes_what_it_has(folder, tmp_path, press, capfd):
    press(fit, {5: 1})
    assert command(folder, "--json", tmp_path / "r.json", "--save", tmp_path / "m.pt") == 130
    out, err = capfd.readouterr()
    assert "interrupted after epoch 2" in out.splitlines()
    assert "val   accuracy" in out
    assert f"model saved in {tmp_path / 'm.pt'}" in out
    assert err.splitlines()[-1] == "graphzero: interrupted"
    assert json.loads((tmp_path / "r.json").read_text())["interrupted"] is True


def test_the_command_says_what_was_skipped(folder, tmp_path, press, capfd):
    press(fit, {5: 1})
    press(evaluate, {3: 1})
    words = ["--json", tmp_path / "r.json", "--predictions", tmp_path / "p.npz"]
    assert command(folder, *words) == 130
    out = capfd.readouterr().out
    assert "the evaluation was interrupted" in out
    assert "no predictions written, because the evaluation was interrupted" in out
    assert json.loads((tmp_path / "r.json").read_text())["splits"] == {}
    assert not (tmp_path / "p.npz").exists()


def test_the_command_says_that_nothing_was_kept(folder, tmp_path, press, capfd):
    press(fit, {1: 1})
    assert command(folder, "--json", tmp_path / "r.json") == 130
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ("graphzero: interrupted before the first epoch ended: nothing was written\n")
    assert not (tmp_path / "r.json").exists()
