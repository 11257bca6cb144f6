"""Names and arguments in the package: nouns, types, and calls that show what they give."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TypeAlias

PACKAGE = Path(__file__).resolve().parents[1] / "graphzero"

PRONOUNS = {
    "one", "each", "found", "given", "how", "own", "there", "here", "known", "left", "ready",
}  # fmt: skip
MOST_PRONOUNS = 60
MOST_ANY = 500
MOST_POSITIONAL = 5
# Their order is PyG's, which its users know.
ORDER_OF_PYG = {"pyg/data_module.py: __init__", "pyg/subgraph_loaders.py: __init__"}
NAMES_OF_PYG = {"NeighborLoader", "LinkNeighborLoader"}  # `graphzero.pyg` has both as well
NAMES_OF_COMMANDS = {"add_options", "run"}  # in each module of `commands/`
NAMES_OF_RAY = {"infer"}  # `graphzero.ray` does the same on a cluster

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@cache
def package() -> dict[str, ast.Module]:
    """The syntax trees of all files, by their paths."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in paths}


def in_scope(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of the scopes in it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, SCOPES):
            yield from in_scope(child)


def parameters_of(function: Function) -> list[ast.arg]:
    arguments = function.args
    starred = [arguments.vararg, arguments.kwarg]
    positional = [*arguments.posonlyargs, *arguments.args]
    return [*positional, *arguments.kwonlyargs, *filter(None, starred)]


def pronouns(tree: ast.AST) -> list[str]:
    """Variables and parameters with such a name, each once in its scope."""
    names = []
    for scope in (node for node in ast.walk(tree) if isinstance(node, (ast.Module, *SCOPES))):
        variables = {
            node.id
            for node in in_scope(scope)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        if isinstance(scope, FUNCTIONS):
            variables |= {parameter.arg for parameter in parameters_of(scope)}
        names += sorted(variables & PRONOUNS)
    return names


def uses_of_any(tree: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "Any"]


def long_positional(tree: ast.AST) -> list[str]:
    """Functions that take more by position than anyone can read."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parameters = [p.arg for p in (*node.args.posonlyargs, *node.args.args)]
            count = len(parameters) - (parameters[:1] in (["self"], ["cls"]))
            names += [node.name] if count > MOST_POSITIONAL else []
    return names


def _is_written_out(value: ast.AST | None) -> bool:
    if isinstance(value, ast.IfExp):
        return _is_written_out(value.body) or _is_written_out(value.orelse)
    return isinstance(value, (ast.Tuple, ast.List)) and value.elts != []


def _made_in(function: Function) -> set[str]:
    """Names of tuples and lists that a function writes out, or takes as a parameter."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_written_out(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    for parameter in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        annotation = "" if parameter.annotation is None else ast.unparse(parameter.annotation)
        if annotation.startswith("tuple[") and not annotation.endswith("...]"):
            names.add(parameter.arg)
    return names


def made_for_a_call(tree: ast.AST) -> list[str]:
    """Calls that unpack a tuple or list that was made for them.

    That is one which is written out in the call or in the same function, or which is a parameter
    with the type of a tuple of fixed length. Sequences of any length may be unpacked, and what a
    function has taken as ``*args``.
    """
    calls = {}
    for function in ast.walk(tree):
        if not isinstance(function, FUNCTIONS):
            continue
        names = _made_in(function)
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            for value in (part.value for part in call.args if isinstance(part, ast.Starred)):
                if _is_written_out(value) or (isinstance(value, ast.Name) and value.id in names):
                    calls[call.lineno, call.col_offset] = ast.unparse(call)[:80]
    return [f"line {line}: {text}" for (line, _), text in sorted(calls.items())]


def in_package(search: Callable[[ast.AST], list[str]]) -> list[str]:
    return [f"{path}: {text}" for path, tree in package().items() for text in search(tree)]


def in_words(findings: list[str]) -> str:
    files = Counter(finding.partition(":")[0] for finding in findings)
    return f"{len(findings)}: " + ", ".join(f"{path} {n}" for path, n in files.most_common())


def test_variables_are_named_by_nouns() -> None:
    findings = in_package(pronouns)
    assert len(findings) <= MOST_PRONOUNS, in_words(findings)


def test_values_have_types() -> None:
    findings = in_package(uses_of_any)
    assert len(findings) <= MOST_ANY, in_words(findings)


def test_what_is_more_than_five_parameters_is_given_by_name() -> None:
    assert sorted(set(in_package(long_positional)) - ORDER_OF_PYG) == []


def test_no_call_unpacks_what_was_made_for_it() -> None:
    assert in_package(made_for_a_call) == []


def test_no_two_public_classes_or_functions_have_one_name() -> None:
    definitions = (ast.FunctionDef, ast.ClassDef)
    bodies = chain.from_iterable(tree.body for tree in package().values())
    names = Counter(node.name for node in bodies if isinstance(node, definitions))
    twice = {name for name, count in names.items() if count > 1 and not name.startswith("_")}
    assert twice <= NAMES_OF_PYG | NAMES_OF_COMMANDS | NAMES_OF_RAY
