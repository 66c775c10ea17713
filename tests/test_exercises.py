"""The exercises can be solved, and what is not solved is told."""

import json
from pathlib import Path

SOLUTIONS = {
    "phi": "return torch.where(x > 0, x + 1, x.clamp(max=0).exp())",
    "attend": "return phi(Q) @ (phi(K).T @ V) / (phi(Q) @ phi(K).sum(0))[:, None]",
    "step": "S, Z = S + phi(k)[:, None] * v, Z + phi(k); return phi(q) @ S / (phi(q) @ Z), S, Z",
    "key_gradient": "later = (q[:, :, None] * G[:, None]).flip(0).cumsum(0).flip(0); "
    "return (later * V[:, None]).sum(-1)",
    "crossover": "return (b + (b * b + 4 * a * c) ** 0.5) / (2 * a)",
}
"""Running sums from the end are those of the sequence turned round."""
BOOK = Path(__file__).parent.parent / "notebooks/exercises.ipynb"


def said(capsys, change=lambda source: source) -> list[str]:
    cells, names = json.loads(BOOK.read_text())["cells"], {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(change("".join(cell["source"])), names)
    return capsys.readouterr().out.splitlines()


def solved(source: str, solutions: dict[str, str] = SOLUTIONS) -> str:
    for name, line in solutions.items():
        if source.startswith(f"def {name}("):
            return f"{source.partition(':')[0]}:\n    {line}"
    return source


def test_exercises_wait_for_their_solutions_know_right_ones_and_wrong_ones(capsys):
    assert said(capsys) == [f"{name}: not yet" for name in SOLUTIONS]
    assert said(capsys, solved) == [f"{name}: right" for name in SOLUTIONS]
    falsified = {name: line.replace("+ 1", "+ 2").replace("later *", "later + ")
                 for name, line in SOLUTIONS.items()} | {"crossover": "return b / a"}  # fmt: skip
    wrong = said(capsys, lambda source: solved(source, falsified))
    for name, line in zip(SOLUTIONS, wrong, strict=True):
        assert line.startswith(f"{name}: wrong, by up to ")


def test_a_right_answer_by_a_large_matrix_is_told(capsys):
    large = {"attend": "A = phi(Q) @ phi(K).T; return A @ V / A.sum(1, keepdim=True)"}
    lines = said(capsys, lambda source: solved(source, SOLUTIONS | large))
    assert lines[1:3] == [
        "attend: right",
        "attend: a sequence of twice the length takes four times the operations",
    ]


def test_a_wrong_shape_is_told_beside_the_right_one(capsys):
    misshapen = dict.fromkeys(SOLUTIONS, "return torch.zeros(3)")
    misshapen["step"] = "return torch.zeros(3), S, Z"
    shapes = dict(zip(SOLUTIONS, ("[7]", "[9, 5]", "[9, 5]", "[9, 4]", "[]"), strict=True))
    for name, line in zip(shapes, said(capsys, lambda x: solved(x, misshapen)), strict=True):
        assert line.startswith(f"{name}: wrong shape, expected {shapes[name]}, not [")


def test_no_cell_gives_a_solution_away():
    shown = BOOK.read_text().replace(" ", "")
    for line in ("x+1", "e^x", "exp()", "cumsum", "124.16"):
        assert line not in shown
