"""The benchmarks run, check what they time, and write what they found. Nothing here asserts how fast anything is."""

import functools
import json
import math
import subprocess
import types
from pathlib import Path

import pytest
import torch
from long_tests import dear_test, some_cases

from benchmarks import ALL, comparison, matmul, matmul_float, measure, plots, products, repeats, report, rivals
from benchmarks.__main__ import main
from benchmarks.comparison import Task, WrongValues, compare, error
from benchmarks.kernels_speed import along_tasks, biased_tasks, gather_tasks, sqr_tasks, stencil_tasks

ROOT = Path(__file__).parents[2]
COMPARED = [  # whose tables hold their checks
    *("sqr", "stencil", "gather", "biased", "along", "trilinear", "functions", "texture"),
    *("matmul", "matmul_sizes", "matmul_linear", "matmul_distances", "matmul_float"),
]


def run(*arguments: object) -> int:
    """`python -m benchmarks`, in this process: an interpreter that imports torch takes as long as a benchmark here."""
    return main([*map(str, arguments)])


@pytest.fixture
def clean_run(monkeypatch):
    monkeypatch.setattr(report, "RUN", report.Run())
    return report.RUN


@dear_test
@some_cases(2)
@pytest.mark.usefixtures("clean_run", "fresh_dynamo")
@pytest.mark.parametrize("name", ALL)
def test_quick_run_has_right_values_and_sane_numbers(name, tmp_path, capsys):
    status = run("--quick", name, "--output", tmp_path)
    printed = capsys.readouterr()
    assert status == 0, printed.out + printed.err
    data = json.loads((tmp_path / "results.json").read_text())
    assert data["quick"]
    assert data["problems"] == []
    assert data["machine"]["torch"] == torch.__version__
    assert data["seconds"][name] > 0
    assert {table["benchmark"] for table in data["tables"]} == {name}
    for table in data["tables"]:
        assert table["rows"]
        for row in table["rows"]:
            assert len(row) == len(table["header"])
            numbers = [cell for cell in row if isinstance(cell, int | float)]
            assert numbers
            assert all(math.isfinite(number) and number > 0 for number in numbers)
        assert all(0 <= check["error"] <= 1 for check in table["checks"])
        if table["benchmark"] in COMPARED and table["header"][1] == "torch_slang":
            checked = {check["row"] for check in table["checks"] if check["run"] == "torch_slang"}
            assert checked == {row[0] for row in table["rows"]}
        assert table["title"] in printed.out
        assert table["title"] in (tmp_path / "results.md").read_text()


def test_unknown_benchmark_is_refused_by_name(capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        run("--quick", "nothing")
    assert "no benchmark is called nothing; there are limits, sqr, " in capsys.readouterr().err


@pytest.mark.usefixtures("clean_run")
def test_the_exit_status_tells_of_problems(monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.kernels_speed.sqr", lambda quick: report.problem("wrong"))
    assert run("--quick", "sqr") == 1
    assert "PROBLEM in sqr: wrong" in capsys.readouterr().out


def square(x=None, **changes):
    x = torch.arange(1.0, 9.0) if x is None else x
    values = {
        "title": "squares",
        "runs": {"torch_slang": lambda: x * x, "rival": lambda: x**2},
        "expected": (x * x).double,
        "bytes": 2 * x.nbytes,
        "operations": x.numel(),
        "on": "cpu",
    }
    return Task(**values | changes)


def product(**changes):
    a, b = torch.randn(2, 8, 8, device=measure.device())
    expected = a.double() @ b.double()
    runs = {"torch_slang": lambda: a @ b, "rival": lambda: torch.mm(a, b)}
    values = {"title": "one", "runs": runs, "expected": lambda: expected, "operations": 1024, "dtype": torch.float32}
    return products.Product(**values | changes)


@pytest.fixture
def own_stream():
    """Where a benchmark measures products: a GPU's are captured, which the usual stream cannot be."""
    with repeats.own_stream():
        yield


@pytest.mark.usefixtures("own_stream")
def test_product_that_is_wrong_or_raises_is_left_out_and_fails_the_run(clean_run):
    right = torch.randn(8, 8, device=measure.device())
    cut = right.double()
    cut[3, 5] += 1e-3
    runs = {"torch_slang": right.clone, "wrong": cut.float, "rounded": right.half, "broken": lambda: [right] * 2}
    one = product(runs=runs, expected=right.double, steady=["torch_slang", "wrong"])
    row = products.measure(one, repeats.QUICK)
    assert row.burst.keys() == row.steady.keys() == {"torch_slang"}
    assert [check["run"] for check in row.checks] == ["torch_slang"]
    problems = [text.removeprefix(": one: ").partition(" times")[0] for text in clean_run.problems]
    assert problems[0].startswith("wrong: WrongValues: result 0: wrong by ")
    assert problems[1].startswith(
        "rounded: WrongValues: result 0: expected torch.float32 torch.Size([8, 8]), got torch.f"
    )
    assert problems[2:] == ["broken: WrongValues: expected 1 results, but got 2"]


def test_tables_of_products_have_bursts_steady_paces_and_ratios(clean_run):
    rows = [
        products.Row("a", 2 * 10**9, {"torch_slang": 2.0, "rival": 3.0}, {"torch_slang": 4.0, "rival": 2.0}),
        products.Row("b", 10**9, {"rival": 1.0}),
    ]
    products.print_rows("products", rows, repeats.QUICK, unit="us", ratios=True)
    burst, steady = clean_run.tables
    assert burst.title.startswith("products, burst, on ")
    assert burst.header == ["", "torch_slang", "rival", "TFLOP/s", "rival / ours"]
    assert burst.rows == [["a", 2000.0, 3000.0, 1.0, 1.5], ["b", None, 1000.0, None, None]]
    assert burst.chart == ["rival / ours"]
    assert burst.lines == [0.8, 0.95]
    assert steady.title.startswith("products, steady, on ")
    assert steady.rows == [["a", 4000.0, 2000.0, 0.5, 0.5]]


@pytest.mark.usefixtures("own_stream")
def test_products_that_come_late_are_hurried(clean_run):
    late = repeats.Pace(rounds=5, work=0.01, rest=0.0, segment=0.1, seconds=0.0)
    (row,) = products.measure_all([lambda: product(steady=["torch_slang"])], late)
    assert row.hurried
    assert not row.steady
    assert set(row.burst) == {"torch_slang", "rival"}


def test_steady_calls_take_turns_there_and_back(monkeypatch):
    order = []
    monkeypatch.setattr(repeats, "_segment", lambda repeated, milliseconds: order.append(repeated) or 1)
    repeats.steady({"ours": "A", "rival": "B"}, repeats.QUICK)
    assert "".join(order) == "AABBA"  # the first is not timed


@pytest.mark.parametrize("transposes", matmul.LAYOUTS.values(), ids=matmul.LAYOUTS)
def test_backward_of_a_rival_without_autograd_is_that_of_autograd(transposes, monkeypatch):
    stand_in = types.SimpleNamespace(mm=torch.mm)  # Triton needs a GPU
    monkeypatch.setattr(rivals, "triton_matmul", stand_in, raising=False)
    a, b, grad = torch.randn(3, 8, 8, dtype=torch.float64)
    results = matmul.triton_product(True, transposes, a, b, grad)
    expected = matmul.gradients(functools.partial(matmul.plain, *transposes), [a, b], grad)()
    torch.testing.assert_close(results, list(expected))


def test_row_of_another_process_arrives_whole(clean_run, monkeypatch, capsys):
    def run_here(command, **options):
        assert options["env"]["TORCH_SLANG_CUDA_ARCHITECTURE"] == "compute_80"
        matmul_float.print_older("--quick" in command)
        return subprocess.CompletedProcess(command, 0, capsys.readouterr().out, "")

    monkeypatch.setattr(matmul_float.subprocess, "run", run_here)
    row = matmul_float.older(quick=True)
    assert row.title == "bf16 64, ours for sm_80"
    assert set(row.burst) == {"torch_slang", products.blas()}
    assert [check["run"] for check in row.checks] == list(row.burst)
    assert clean_run.problems == []


RIGHT = torch.arange(1.0, 9.0) ** 2


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([RIGHT + torch.eye(8)[7] * 0.1], "result 0: wrong by"),
        ([RIGHT * torch.eye(8)[7].mul(math.nan)], "result 0: wrong by nan"),
        ([RIGHT.double()], "result 0: expected torch.float32"),
        ([RIGHT[:7]], "result 0: expected torch.float32 torch.Size"),
        ([], "expected 1 results, but got 0"),
        ([RIGHT, RIGHT], "expected 1 results, but got 2"),
    ],
)
def test_wrong_results_are_refused(results, message):
    with pytest.raises(WrongValues, match=message):
        error(square(), results, [RIGHT.double()])


def test_wrong_rival_is_left_out_and_fails_the_run(clean_run):
    runs = {"torch_slang": lambda: RIGHT, "right": RIGHT.clone, "wrong": lambda: RIGHT + 1}
    (row,) = compare("squares", [square(runs=runs)], quick=True)
    assert list(row.times) == ["torch_slang", "right"]
    assert clean_run.problems == [": squares: wrong: WrongValues: result 0: wrong by 5e+04 times what is allowed"]
    assert [table.header[1:3] for table in clean_run.tables] == [["torch_slang", "right"]]


def test_rival_that_raises_is_left_out_and_fails_the_run(clean_run):
    def broken():
        raise RuntimeError("no such kernel")

    (row,) = compare("squares", [square(runs={"torch_slang": lambda: RIGHT, "rival": broken})], quick=True)
    assert list(row.times) == ["torch_slang"]
    assert clean_run.problems == [": squares: rival: RuntimeError: no such kernel"]


def test_row_of_ours_with_wrong_values_is_not_timed(clean_run):
    tasks = [square(runs={"torch_slang": lambda: RIGHT + 1, "rival": lambda: RIGHT})]
    assert compare("squares", tasks, quick=True) == []
    assert clean_run.tables == []
    assert len(clean_run.problems) == 1


def test_fastest_right_variant_is_compared_with(clean_run, monkeypatch):
    taken = {"slow": [3.0, 2.0, 9.0], "fast": [1.0, 9.0, 2.0]}
    monkeypatch.setattr(comparison, "samples", lambda calls, on, rounds: {name: taken[name] for name in calls})
    chosen = comparison._fastest({"slow": lambda: "slow", "fast": lambda: "fast"}, "cpu")
    assert chosen() == "fast"


def test_rounds_take_turns_in_an_order_of_their_own():
    order = []
    taken = measure.samples({name: lambda name=name: order.append(name) for name in "abc"}, "cpu", rounds=40)
    rounds = ["".join(order[i : i + 3]) for i in range(0, len(order), 3)]
    assert rounds[:2] == ["abc", "abc"]  # they warm up
    assert len(rounds) == 42
    assert {"".join(sorted(one)) for one in rounds} == {"abc"}
    assert len(set(rounds)) == 6
    assert [len(times) for times in taken.values()] == [40, 40, 40]


def test_slow_calls_get_fewer_rounds():
    assert len(measure.samples({"": lambda: None}, "cpu", rounds=50, seconds=0.0)[""]) == 3


@pytest.mark.parametrize(
    ("tasks", "numbers"),
    [
        # numbers of four bytes moved for each element, at the least: forward, backward, ...
        (lambda: sqr_tasks(True, "cpu"), [2, 3]),
        (lambda: stencil_tasks(True), [2, 2]),
        (lambda: gather_tasks(True), [3, 4, 3]),
        (lambda: biased_tasks(True), [2, 3, 3]),
        (lambda: along_tasks(True), [4, 7]),
    ],
)
def test_bytes_are_the_least_traffic(tasks, numbers):
    for count, task in zip(numbers, tasks(), strict=False):
        elements = max(result.numel() for result in comparison.listed(task.expected()))
        small = task.bytes - 4 * count * elements  # of a table or a bias
        assert 0 <= small <= 4 * elements / 16


def results(**changes):
    table = report.Table("t | ms", ["", "ours", "rival"], [["a", 1.23456, None]], ["note"], ["ours", "rival"], "ms")
    table.benchmark = table.module = "sqr"
    return report.as_data(report.Run(machine={"device": "X"}, tables=[table], seconds={"sqr": 2.0}, **changes))


def test_markdown_shows_tables_notes_and_problems():
    text = report.markdown(results(problems=["sqr: wrong"]))
    assert text.startswith("### X\n\n")
    assert "|  | ours | rival |\n|---|---|---|\n| a | 1.23 | - |" in text
    assert "*note*" in text
    assert "**Problem**: sqr: wrong" in text


def test_document_is_made_again_between_its_marks(tmp_path):
    path, document = tmp_path / "results.json", tmp_path / "benchmarks.md"
    path.write_text(json.dumps(results()))
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    assert run("--markdown", path, "--document", document) == 0
    first = document.read_text()
    assert first.startswith(f"before\n{report.BEGIN}\n")
    assert first.endswith(f"{report.END}\nafter\n")
    assert "| a | 1.23 | - |" in first
    assert "old" not in first
    assert run("--markdown", path, "--document", document) == 0
    assert document.read_text() == first


def test_document_without_marks_is_refused():
    with pytest.raises(ValueError, match="expected the document to have the lines"):
        report.replace_generated("text", [results()])


def test_documentation_has_the_marks_and_every_benchmark():
    document = (ROOT / "docs" / "benchmarks.md").read_text()
    report.replace_generated(document, [results()])
    assert [name for name in ALL if f"`{name}`" not in document] == []


def test_plots_are_images_of_the_charts(tmp_path):
    pytest.importorskip("matplotlib")
    (path,) = plots.write_plots(results(), tmp_path)
    assert path == tmp_path / "sqr.png"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_plots_have_the_lines_of_a_table(monkeypatch):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    (table,) = results()["tables"]
    table["lines"] = [0.8, 0.95]
    axis = figure.subplots()
    plots._bars(axis, table)
    assert [line.get_xdata()[0] for line in axis.get_lines()] == [0.8, 0.95]


def test_without_matplotlib_there_is_a_message(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plots.importlib.util, "find_spec", lambda name: None)
    assert plots.write_plots(results(), tmp_path) == []
    assert "matplotlib is not installed" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
