"""Imports point down only, and the other rules of the house that can be read off the source.

A part is a module or a subpackage directly under the package. It may import parts of a strictly
lower rank, and itself.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "rsgda"

LAYERS = [
    [
        "_checks",
        "_lanczos",
        "_model_file",
        "_names",
        "_trace",
        "_trees",
    ],  # helpers, which import none
    ["_split"],
    ["problem", "projections", "_ascent", "_concavity", "_flat", "_update"],
    ["moves", "whole", "_start"],
    ["algorithms", "_search"],
    ["theory", "inner", "drive"],
    ["record", "testing"],
    ["robust", "transport", "data", "plots", "report", "_planned"],
    ["singlecell", "problems"],
    ["reproduce"],
    ["cli_cache", "cli_output", "cli_progress"],
    ["cli_launch", "cli_match", "cli_reproduce", "cli_robust", "cli_sweep"],
    ["cli"],
    ["__main__"],
]
RANK = {part: rank for rank, parts in enumerate(LAYERS, start=-2) for part in parts}
RIVALS = {"torch", "ot", "ott"}
MAX_LINES = 400


def modules(source: Path) -> Iterator[tuple[Path, ast.Module]]:
    """Each file of the package with its syntax tree."""
    files = sorted(source.rglob("*.py"))
    if not files:
        raise FileNotFoundError(f"no Python file under {source}")
    for path in files:
        yield path, ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in {
        getattr(node.test, "id", None),
        getattr(node.test, "attr", None),
    }


def nodes(path: Path, tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes, but for the `if TYPE_CHECKING` blocks of an `__init__.py`."""
    for node in ast.iter_child_nodes(tree):
        if path.name == "__init__.py" and is_type_checking(node):
            continue
        yield node
        yield from nodes(path, node)


def imported(source: Path, path: Path, node: ast.AST) -> list[str]:
    """Dotted names that `node` imports; `from a import b` gives `a.b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = [node.module] if node.module else []
        if node.level:
            package = [source.name, *path.relative_to(source).parent.parts]
            base = package[: len(package) - node.level + 1] + base
        return [".".join([*base, alias.name]) for alias in node.names]
    if isinstance(node, ast.Call) and node.args:
        name = getattr(node.func, "id", getattr(node.func, "attr", None))
        target = getattr(node.args[0], "value", None)
        if name in {"import_module", "__import__"} and isinstance(target, str):
            return [target]
    return []


def upward_imports(source: Path) -> list[str]:
    """One line for each import that does not point down."""
    found = []
    for path, tree in modules(source):
        if path == source / "__init__.py":
            continue  # it names every part, and no part may import it
        part = path.relative_to(source).parts[0].removesuffix(".py")
        if part not in RANK:
            found.append(f"{path}: `{part}` has no rank; add it to LAYERS")
            continue
        for node in nodes(path, tree):
            for name in imported(source, path, node):
                package, _, inside = name.partition(".")
                other = inside.partition(".")[0]
                if package != source.name or other == part:
                    continue
                where = f"{path}:{node.lineno}"
                if other not in RANK:
                    found.append(f"{where}: imports `{name}`; name the module that defines it")
                elif RANK[other] >= RANK[part]:
                    found.append(
                        f"{where}: `{part}` (rank {RANK[part]}) imports `{other}` "
                        f"(rank {RANK[other]}), which is not below it"
                    )
    return found


def broken_rules(source: Path) -> list[str]:
    """One line for each construct that has no place in the package."""
    found = []
    for path, tree in modules(source):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MAX_LINES:
            found.append(f"{path}: {lines} lines, at most {MAX_LINES} are allowed")
        for node in ast.walk(tree):
            found += [f"{path}:{node.lineno}: {rule}" for rule in rules_of(source, path, node)]
    return found


def rules_of(source: Path, path: Path, node: ast.AST) -> Iterator[str]:
    """The rules that one node breaks."""
    names = imported(source, path, node)
    for name in names:
        if name.partition(".")[0] in RIVALS:
            yield f"imports `{name}`, which is for tests and benchmarks only"
    match node:
        case ast.Assert():
            yield "`assert`; raise an error that names the argument"
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() if node.args.kwarg:
            yield f"takes `**{node.args.kwarg.arg}`; name the arguments"
        case ast.Name(id=word) | ast.Attribute(attr=word):
            names = [word]
        case ast.keyword(arg="allow_pickle", value=value):
            names = [] if getattr(value, "value", None) is False else ["allow_pickle"]
    yield from (f"uses `{name}`; nothing is pickled" for name in names if "pickle" in name.lower())


def test_imports_point_down():
    found = upward_imports(SOURCE)
    assert not found, "\n".join(found)


def test_rules_of_the_house():
    found = broken_rules(SOURCE)
    assert not found, "\n".join(found)


# The checks above are worth what they catch: below, a made-up package breaks each rule once.


def made_up(folder: Path, files: dict[str, str]) -> Path:
    source = folder / "rsgda"
    for name, text in {"__init__.py": "", **files}.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return source


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("problem.py", "from rsgda.drive import solve"),
        ("problem.py", "import rsgda.drive.solve"),
        ("problem.py", "from rsgda import drive"),
        ("problem.py", "from . import drive"),
        ("problem.py", "from .drive import solve"),
        ("problem.py", "def f():\n    from rsgda.drive import solve"),
        ("problem.py", "def f():\n    return importlib.import_module('rsgda.drive')"),
        ("problem.py", "if TYPE_CHECKING:\n    from rsgda.drive import solve"),
        ("problem.py", "from rsgda import Problem"),
        ("problem.py", "import rsgda"),
        ("problem.py", "import rsgda.projections"),
        ("_checks.py", "from rsgda import _trees"),
        ("algorithms/__init__.py", "from rsgda.drive import solve"),
        ("algorithms/rsgda.py", "from ..drive import solve"),
        ("robust/deep/network.py", "from ...transport import sinkhorn"),
        ("novelty.py", ""),
    ],
)
def test_an_upward_import_is_found(name, text, tmp_path):
    source = made_up(tmp_path, {name: text})
    (line,) = upward_imports(source)
    assert line.startswith(str(source / name))


def test_downward_imports_pass(tmp_path):
    files = {
        "__init__.py": "if TYPE_CHECKING:\n    from rsgda.cli import main",
        "_checks.py": "import math",
        "problem.py": "import jax\nfrom rsgda import _trees\nfrom rsgda._checks import positive",
        "algorithms/__init__.py": "if TYPE_CHECKING:\n    from rsgda.drive import solve",
        "algorithms/rsgda.py": "from rsgda.problem import Problem\nfrom .sgda import SGDA",
        "cli.py": "def f():\n    from rsgda import reproduce",
    }
    assert upward_imports(made_up(tmp_path, files)) == []


@pytest.mark.parametrize(
    "text",
    [
        "import torch",
        "from ot.lp import emd",
        "def f():\n    import ott.solvers",
        "importlib.import_module('torch')",
        "def f(x):\n    assert x",
        "import pickle",
        "from cloudpickle import dumps",
        "table.to_pickle('x')",
        "numpy.load('x', allow_pickle=True)",
        "def f(**kwargs): ...",
        "f = lambda **options: 0",
        "class A:\n    async def f(self, **rest): ...",
        "x = 0\n" * (MAX_LINES + 1),
    ],
)
def test_a_broken_rule_is_found(text, tmp_path):
    source = made_up(tmp_path, {"problem.py": text})
    (line,) = broken_rules(source)
    assert line.startswith(str(source / "problem.py"))


def test_sound_code_passes(tmp_path):
    text = '"""Nothing is pickled; torch is a word."""\n' + "x = 0\n" * (MAX_LINES - 4)
    text += "def f(*rows, key):\n    return numpy.load('x', allow_pickle=False)\nimport other\n"
    assert broken_rules(made_up(tmp_path, {"problem.py": text})) == []


def test_an_empty_package_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no Python file under"):
        upward_imports(tmp_path)
