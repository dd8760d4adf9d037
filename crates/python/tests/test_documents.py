"""The programs in the documents, as they are printed, and the examples."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [HERE / "../README.md", *sorted((HERE / "../../../docs").glob("**/*.md"))]
DOCUMENTS = [page for page in PAGES if PROGRAM.search(page.read_text())]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_program_works_as_it_is_printed(document: Path, tmp_path: Path) -> None:
    for program in PROGRAM.findall(document.read_text()):
        subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


def test_the_book_has_programs() -> None:
    assert {"python.md", "queues.md", "transactions.md"} <= {document.name for document in DOCUMENTS}


def test_the_example_of_lookups_works(shm: str) -> None:
    example = HERE / "../examples/lookups.py"
    ran = subprocess.run([sys.executable, example, shm], check=True, stdout=subprocess.PIPE, text=True)
    assert "million lookups/s" in ran.stdout
