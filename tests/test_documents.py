"""The Python code of README.md and of the pages in docs/ runs as printed.

The blocks of one file run in order in one program, started as a reader would start it: in a new
interpreter, in an empty folder, with JAX as it is out of the box.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>.*?)[ \t]*$")
TIMEOUT = 300  # seconds for one document


RUN = "<!-- ci:run -->"  # stands above commands that are run, too


def program_of(document: Path) -> str:
    """The document's Python blocks, each line where it stands, all other lines empty.

    Commands that are marked become one line of the program, where their last one stands.
    """
    program, opened, above, typed = [], None, "", ""
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), start=1):
        fence = FENCE.match(line)
        kept = ""
        if opened is None:
            if fence:
                info = "run" if above == RUN else fence["info"]
                opened = (number, fence["mark"], fence["indent"], info)
        elif fence and not fence["info"] and fence["mark"].startswith(opened[1]):
            opened = None
        elif re.match(r"(python|py)\b", opened[3]):
            kept = line.removeprefix(opened[2])
        elif opened[3] == "run":
            typed += line.removesuffix("\\") + " "
            if not line.endswith("\\"):
                kept = f"import subprocess; subprocess.run({shlex.split(typed)}, check=True)"
                typed = ""
        above = line.strip()
        program.append(kept)
    if opened is not None:
        raise ValueError(f"{document.name}:{opened[0]}: this block is never closed")
    return "\n".join(program) + "\n"


def run_document(document: Path, folder: Path) -> None:
    """Run the blocks in `folder`; fail with the document's name and line where one fails."""
    program = program_of(document)
    if not program.strip():
        return
    script = folder / f"{document.stem}.py"
    script.write_text(program, encoding="utf-8")
    # JAX as the reader has it, whatever the tests set for themselves.
    ours = {name for name in os.environ if name.startswith("JAX_")} - {"JAX_PLATFORMS"}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment["MPLBACKEND"] = "Agg"
    commands = Path(sys.executable).parent
    environment["PATH"] = f"{commands}{os.pathsep}{environment.get('PATH', '')}"
    command = [sys.executable, "-W", "error:::__main__", str(script)]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"{document.name}: took more than {TIMEOUT} seconds", pytrace=False)
    if done.returncode:
        lines = re.findall(rf'File "{re.escape(str(script))}", line (\d+)', done.stderr)
        where = f"{document.name}:{lines[-1] if lines else '?'}"
        pytest.fail(f"{where}: the code does not run\n{done.stderr}", pytrace=False)


# These compile for up to a third of a minute each.
LONG = (
    "cells.md", "cells-tutorial.md", "choosing.md", "clusters.md", "robust.md", "transport.md",
    "writing-an-algorithm.md",
    "writing-a-problem.md",
)  # fmt: skip


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.name in LONG else [])
        for path in DOCUMENTS
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_code_runs_as_printed(document, tmp_path):
    run_document(document, tmp_path)


def test_blocks_share_names_and_other_languages_are_left_out(tmp_path):
    document = tmp_path / "page.md"
    document.write_text(
        "# Title\n\n```python\nx = 1\n```\n\n```sh\nexit 1\n```\n\n"
        '!!! note\n\n    ```python title="b"\n    open("x.txt", "w").write(str(x))\n    ```\n'
    )
    run_document(document, tmp_path)
    assert (tmp_path / "x.txt").read_text() == "1"


def test_a_page_without_code_passes(tmp_path):
    document = tmp_path / "page.md"
    document.write_text("# Title\n\nWords.\n")
    run_document(document, tmp_path)
    assert not (tmp_path / "page.py").exists()


@pytest.mark.parametrize("code", ["1 / 0", "f(", "import warnings; warnings.warn('late')"])
def test_failure_names_file_and_line(code, tmp_path):
    document = tmp_path / "page.md"
    document.write_text(f"# Title\n\n```python\nx = 1\n```\n\n```python\n{code}\n```\n")
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:8: the code does not run"):
        run_document(document, tmp_path)


def test_a_block_that_is_never_closed_is_refused(tmp_path):
    document = tmp_path / "page.md"
    document.write_text("# Title\n\n```python\nx = 1\n")
    with pytest.raises(ValueError, match=r"page\.md:3: this block is never closed"):
        run_document(document, tmp_path)
