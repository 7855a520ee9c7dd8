"""HTML from Python: every text is escaped, unless it is `Html` already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

EMPTY = ("meta", "br")  # elements without an end tag


class Html(str):
    """Text that is HTML already."""


def tag(name: str, /, *children: str, **attributes: str | int | bool) -> Html:
    """An element with its children, which are escaped unless they are `Html`.

    An underscore in the name of an attribute stands for a hyphen, and one at its end is dropped. An attribute that is
    True has no value; one that is False is left out.

    >>> tag("p", "1 < 2", class_="note", aria_hidden="true")
    '<p class="note" aria-hidden="true">1 &lt; 2</p>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value is not False)
    start = f"<{name}{written}>"
    return Html(start) if name in EMPTY else Html(f"{start}{joined(children)}</{name}>")


def _attribute(key: str, value: str | int | bool) -> str:
    key = key.rstrip("_").replace("_", "-")
    return f" {key}" if value is True else f' {key}="{escape(str(value))}"'


def joined(children: Iterable[str]) -> Html:
    """Several pieces of HTML or text as one piece of HTML."""
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in children))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> Html:
    """A table; the first cell of each row names the row.

    >>> table(["name", "value"], [["a&b", "1"]])
    '<table><thead><tr><th scope="col">name</th><th scope="col">value</th></tr></thead><tbody><tr><th scope="row">a&amp;b</th><td>1</td></tr></tbody></table>'
    """  # noqa: E501 (one line of output)
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in header)))
    body = tag(
        "tbody", *(tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows)
    )
    return tag("table", *([tag("caption", caption)] if caption else []), head, body)


def paragraphs(sentences: Iterable[str]) -> Html:
    """Each sentence as a paragraph."""
    return joined(tag("p", sentence) for sentence in sentences)
