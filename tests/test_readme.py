"""The README's example runs as it stands, and does what the README says."""

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def test_the_ten_lines_run(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names: dict = {}
    exec(code, names)
    assert names["scores"].shape == (5000, 4)
    assert names["model"].converged_ and names["model"].certificate_.suboptimality <= 1e-8
    assert "Certificate: suboptimality at most " in capsys.readouterr().out
