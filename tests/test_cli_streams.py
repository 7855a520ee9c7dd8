"""The streams of the command line: data on stdin, scores and JSON on stdout or stderr, and readers that leave."""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vrpca.cli import stdin


@pytest.fixture(scope="module")
def table():
    values = np.random.default_rng(3).standard_normal((60, 5)) * [5, 3, 2, 1, 0.5]
    return pd.DataFrame(values, [f"s{i}" for i in range(60)], list("abcde"))


@pytest.fixture
def file(tmp_path, table):
    table.to_csv(tmp_path / "table.csv")
    return tmp_path / "table.csv"


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Empty folders for the cache and for temporary files, as the variables of a process."""
    places = {"VRPCA_CACHE": tmp_path / "cache", "TMPDIR": tmp_path / "temporary"}
    for name, folder in places.items():
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    return list(places.values())


def command(*arguments):
    return [sys.executable, "-m", "vrpca", *map(str, arguments)]


def text_of(table):
    stream = io.BytesIO()
    table.to_csv(stream)
    return stream.getvalue()


@pytest.mark.parametrize("arguments", ["fit - -k 2", "info -", "fit - -k 70"])
def test_nothing_is_kept_of_text_on_stdin(places, table, arguments):
    done = subprocess.run(command(*arguments.split()), input=text_of(table), capture_output=True, check=False)
    assert done.returncode == (2 if "70" in arguments else 0), done.stderr
    assert b"later fits" not in done.stderr
    assert [list(folder.iterdir()) for folder in places] == [[], []]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_kept_of_stdin_after_a_signal(places, table, number):
    process = subprocess.Popen(command("fit", "-", "-k", 2), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdin.write(text_of(table))
    process.stdin.flush()
    while not list(places[1].iterdir()):  # until stdin is being copied
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    process.stdin.close()
    assert [list(folder.iterdir()) for folder in places] == [[], []]


def test_nothing_is_kept_of_stdin_if_a_signal_comes_as_its_folder_is_made(tmp_path, monkeypatch):
    make = os.mkdir

    def make_and_interrupt(folder, mode):
        make(folder, mode)
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1,2\n")))
    monkeypatch.setattr(os, "mkdir", make_and_interrupt)
    with pytest.raises(KeyboardInterrupt), stdin.AFTERWARDS:
        stdin.from_stdin()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("arguments", "streams"),
    [("fit {} -k 5 --scores - -q", ""), ("fit {} -k 2 -q", ""), ("fit --help", ""), ("fit {} -k 2 --json", "2>&1")],
)
def test_a_reader_that_leaves(tmp_path, arguments, streams):
    """The exit code is that of a program that SIGPIPE has ended, and nothing is said."""
    np.save(tmp_path / "data.npy", np.random.default_rng(0).standard_normal((20_000, 5)))
    words = " ".join(command(*arguments.format(tmp_path / "data.npy").split()))
    script = f"{{ {words} {streams}; echo $? > {tmp_path}/code; }} | true"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (tmp_path / "code").read_text() == "141\n"
    assert done.stderr == ""


def split(*arguments):
    """Run a command; return its exit code, stdout and stderr apart."""
    done = subprocess.run(command(*arguments), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("more", [(), ("-q",)])
def test_json_is_alone_on_stderr_if_scores_take_up_stdout(file, tmp_path, more):
    model, resume = tmp_path / "model.npz", ("--checkpoint", tmp_path / "state", "--resume")
    code, out, err = split("fit", file, "-k", 2, "--json", "--scores", "-", "--out", model, *resume, *more)
    assert code == 0 and out.startswith("sample,pc1,pc2\ns0,") and json.loads(err)["scores"] == "-"
    code, out, err = split("transform", model, file, "--json", "--out", "-", *more)
    assert code == 0 and out.startswith("sample,pc1,pc2\ns0,") and json.loads(err)["n_components"] == 2


def test_the_fields_of_json_are_documented(file, tmp_path, vrpca_command, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1] / "docs" / "_ext")
    from command_line import JSON, page

    model = tmp_path / "model.npz"
    for name, arguments in {
        "fit": (file, "-k", 2, "--out", model),
        "transform": (model, file, "--out", tmp_path / "scores.npy"),
        "check": (model, file),
        "info": (file,),
        "report": (model, file, "--out", tmp_path / "page.html"),
    }.items():
        _, out, _ = vrpca_command(name, *arguments, "--json")
        assert list(json.loads(out)) == JSON[name].split(), name
    assert all(word in page() for word in ("NO_COLOR", "141", "| `report` | `model`, `data`, `page`, `bytes` |"))
