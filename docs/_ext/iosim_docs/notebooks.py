"""The notebooks: title and question of each, from its first cell."""

from __future__ import annotations

from pathlib import Path


def listed(folder: Path) -> str:
    """One paragraph for each notebook, in their order, as Markdown."""
    return "\n\n".join(
        f"**{title}** (`notebooks/{path.stem}.ipynb`). {question}" for path in sources(folder) for title, question in [head(path)]
    )


def sources(folder: Path) -> list[Path]:
    """Their reviewed sources."""
    return sorted(folder.glob("[0-9][0-9]_*.py"))


def head(path: Path) -> tuple[str, str]:
    """The title and the question of a notebook.

    The question is the paragraph that begins so; raises ValueError where the first cell has no title or none.
    """
    cell = path.read_text(encoding="utf-8").split("# %%", 2)[1]
    paragraphs = [" ".join(part.split()) for part in "\n".join(line.lstrip("# ") for line in cell.splitlines()[1:]).split("\n\n")]
    question = next((part for part in paragraphs if part.startswith("**Question.**")), None)
    if question is None or not paragraphs[0]:
        raise ValueError(f"{path.name} does not begin with a title and a question")
    return paragraphs[0], question.removeprefix("**Question.**").strip()
