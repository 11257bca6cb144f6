"""Features that are stored as another dtype than they come in."""

from __future__ import annotations

import files
import numpy as np
import pyarrow as pa
import pytest

pandas = pytest.importorskip("pandas")
torch = pytest.importorskip("torch")

import numbers_of_dtypes as numbers  # noqa: E402 (it needs torch)

import graphzero as gz  # noqa: E402
from graphzero.ingest.rows import round_to  # noqa: E402
from graphzero.store.format import verify_file  # noqa: E402

NODES = 60
EDGES = files.random_edges(NODES, 300)


def built(tmp_path, features, dtype=None, **options):
    """Features of a dataset that is built so, by node id."""
    with gz.build(
        tmp_path / "d", EDGES, features, num_nodes=NODES, feature_dtype=dtype, **options
    ) as ds:
        verify_file(ds.features.path)
        return ds.features.gather(np.arange(NODES))


def some_rows(dtype=np.float32):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((NODES, 5)) * 10.0 ** rng.integers(-7, 4, (NODES, 5))
    rows[3, 1:] = np.nan, np.inf, -np.inf, -0.0
    return rows.astype(dtype)


def rounded(rows, name):
    """By NumPy, or torch."""
    if name == "bfloat16":
        halves = torch.from_numpy(rows.astype(np.float32)).to(torch.bfloat16)
        return halves.view(torch.int16).numpy().view(gz.BFLOAT16)
    return rows.astype(name)


def test_bfloat16_rounds_to_nearest_and_ties_to_even():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 200_000, np.uint32)
    bits[::2] &= 0xFFFF8000  # in the middle of two, half of them
    values = bits.view(np.float32)
    got = round_to(values, gz.BFLOAT16).view(np.uint16)
    wanted = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    is_number = ~np.isnan(values)
    np.testing.assert_array_equal(got[is_number], wanted[is_number])
    assert np.isnan(numbers.as_float32(got[~is_number].view(gz.BFLOAT16))).all()


@pytest.mark.parametrize(
    ("name", "fits", "fits_not"),
    [("float16", 65519.996, 65520.0), ("bfloat16", 3.3895313e38, 3.4e38)],
)
def test_a_number_that_becomes_infinite_is_named(tmp_path, name, fits, fits_not):
    rows = some_rows(np.float64)
    rows[41, 2] = -fits
    with np.errstate(over="ignore"):
        assert np.isfinite(numbers.as_float32(built(tmp_path, rows, name)))[41].all()
    rows[41, 2] = -fits_not
    before = sorted(path.name for path in (tmp_path / "d").iterdir())
    with pytest.raises(ValueError, match=rf"features, row 41: -.* does not fit {name}: use a"):
        built(tmp_path, rows, name)
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == before


def test_what_does_not_fit_is_named(tmp_path):
    rows = np.zeros((NODES, 3), np.int64)
    for number, dtype in ((-1, "uint8"), (70_000, "float16")):
        rows[17, 0] = number
        np.save(tmp_path / "x.npy", rows)
        with pytest.raises(ValueError, match=rf"x\.npy, row 17: {number} does not fit {dtype}"):
            built(tmp_path, tmp_path / "x.npy", dtype)
    with pytest.raises(ValueError, match="bfloat16 numbers cannot be stored as uint8 without"):
        built(tmp_path, rounded(some_rows(), "bfloat16"), "uint8")
    with pytest.raises(ValueError, match=r"is not a dtype; use one of .*float16, bfloat16"):
        built(tmp_path, rows, "bf16")
    np.save(tmp_path / "x.npy", rounded(some_rows(), "bfloat16").view("V2"))  # as of ml_dtypes
    with pytest.raises(ValueError, match=r"x\.npy has dtype \|V2, .*give feature_dtype='bfloat16'"):
        built(tmp_path, tmp_path / "x.npy")


def test_two_bytes_without_a_meaning_are_bfloat16_where_the_user_says_so(tmp_path):
    bits = rounded(some_rows(), "bfloat16")
    np.save(tmp_path / "x.npy", bits.view("V2"))
    got = built(tmp_path, tmp_path / "x.npy", "bfloat16")
    np.testing.assert_array_equal(got.view("<u2"), bits.view("<u2"))
    with pytest.raises(ValueError, match=r"dtype \|V2"):
        built(tmp_path, tmp_path / "x.npy", "float32")


IDS_FIRST = {"id_column": 0}


def write_csv(path, rows, ids):
    """Headerless, with the node id first: `IDS_FIRST` says so to a build."""
    path.write_text("".join(f"{i},{','.join(map(repr, rows[i].tolist()))}\n" for i in ids))
    return path


def test_csv_values_are_named_by_line(tmp_path, order):
    ids = np.random.default_rng(1).permutation(NODES)
    rows = np.random.default_rng(2).standard_normal((NODES, 2))
    path = write_csv(tmp_path / "x.csv", rows, ids)
    got = numbers.as_float32(built(tmp_path, path, "bfloat16", order=order, **IDS_FIRST))
    np.testing.assert_array_equal(got, numbers.as_float32(round_to(rows, gz.BFLOAT16)))
    rows[ids[6], 1] = 1e5
    write_csv(path, rows, ids)
    with pytest.raises(ValueError, match=r"x\.csv, line 7: 100000\.0 does not fit float16"):
        built(tmp_path, path, "float16", order=order, **IDS_FIRST)


@pytest.mark.parametrize("source", ["int64", "uint16", "int8", "bool"])
def test_integers_become_floats_and_other_integers(tmp_path, source):
    rows = np.random.default_rng(0).integers(0, 2 if source == "bool" else 100, (NODES, 3))
    for name in ("float16", "bfloat16", "float32", "int8", "uint8", "int64"):
        got = built(tmp_path, rows.astype(source), name)
        assert got.dtype == numbers.NAMES[name]
        np.testing.assert_array_equal(numbers.as_float32(got), rows)


@pytest.mark.parametrize("dtype", [None, "bfloat16", "float32", "float16"])
def test_bfloat16_comes_in_under_its_name(tmp_path, order, dtype):
    rows = rounded(np.clip(some_rows(), -1e4, 1e4), "bfloat16")
    tensor = torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
    np.save(tmp_path / "x.npy", rows)
    for given in (np.asfortranarray(rows), tensor, tensor.T.contiguous().T, tmp_path / "x.npy"):
        got = built(tmp_path, given, dtype, order=order)
        assert got.dtype == numbers.NAMES[dtype or "bfloat16"]
        wanted = rows if dtype in (None, "bfloat16") else numbers.as_float32(rows).astype(dtype)
        assert numbers.as_bits(got) == numbers.as_bits(wanted)


def test_doubles_are_rounded_once():
    above_the_middle = 1 + 2.0**-8 + 2.0**-40  # which a float32 cannot tell from the middle
    below_the_middle = 1 + 3 * 2.0**-8 - 2.0**-40
    values = np.array([above_the_middle, below_the_middle, 1e-300, 1e300, -1e300, np.nan])
    values = np.concatenate([values, -values])
    got = numbers.as_float32(round_to(values, gz.BFLOAT16))
    wanted = [1 + 2**-7, 1 + 2**-7, 0, np.inf, -np.inf, np.nan]
    np.testing.assert_array_equal(got, [*wanted, *(-x for x in wanted)])
    half = round_to(np.array([1 + 2.0**-11 + 2.0**-40]), np.dtype(np.float16))
    assert half[0] == np.float16(1 + 2**-10)


TIMES = np.array([1500000001.5, 1500000003.0, 0.5])
LOOP = np.array([[0, 1], [1, 2], [2, 0]])
TABLES = {
    "csv": lambda path, table: (pandas.DataFrame(table).to_csv(path, index=False), path)[1],
    "parquet": lambda path, table: (pandas.DataFrame(table).to_parquet(path), path)[1],
    "pandas": lambda path, table: pandas.DataFrame(table),
    "arrow": lambda path, table: pa.table(table),
    "sources": lambda path, table: [gz.Source(pa.table(table))],
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(("dtype", "stored"), [(None, np.float32), ("float64", np.float64)])
def test_features_of_every_table_are_float32_unless_they_are_to_be_wider(
    tmp_path, kind, dtype, stored
):
    def rows(*ids):
        table = {"id": ids, "a": TIMES[: len(ids)], "b": [7] * len(ids)}
        return TABLES[kind](tmp_path / f"x{ids[0]}.{kind}", table)

    gz.build(tmp_path / "d", LOOP, rows(0, 1, 2), feature_dtype=dtype).close()
    with gz.append(tmp_path / "d", nodes={"x": rows(3, 4)}) as ds:
        assert ds.features.dtype == stored
        assert ds.features.gather([0, 1, 3, 4])[:, 0].tolist() == [*TIMES[:2].astype(stored)] * 2


@pytest.mark.parametrize("kind", TABLES)
def test_other_numbers_of_every_table_keep_64_bits(tmp_path, kind):
    def rows(name, column, **more):
        return TABLES[kind](tmp_path / f"{name}.{kind}", {**more, column: TIMES})

    nodes = {"y": rows("y", "y", id=[0, 1, 2]), "time": rows("t", "t", id=[0, 1, 2])}
    edges = {"edge_index": LOOP.T, "edge_attr": rows("e", "e"), "at": rows("at", "at")}
    with gz.build(tmp_path / "d", edges, nodes=nodes) as ds:
        for store in (ds.labels, ds.attributes["time"], *ds.edge_attributes.values()):
            assert store.dtype == np.float64
            assert sorted(store.gather([0, 1, 2])) == sorted(TIMES)


def test_arrays_keep_their_dtype(tmp_path):
    for dtype in (np.float64, np.float16, np.int8):
        for x in (np.ones((3, 2), dtype), [gz.Source(np.ones((3, 2), dtype))]):
            with gz.build(tmp_path, LOOP, x) as ds:
                assert ds.features.dtype == dtype
