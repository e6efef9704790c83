"""Docstrings of the fields of named tuples."""


def describe(fields: type, **texts: str) -> None:
    """Says what the fields of a named tuple are where help() looks."""
    for name, text in texts.items():
        getattr(fields, name).__doc__ = text
