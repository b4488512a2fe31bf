"""Names for the class labels that Hugging Face data sets store as numbers."""

from __future__ import annotations

from typing import Any


def with_names(fields: dict[str, Any], features: Any) -> dict[str, Any]:
    """A row whose class labels, alone or in lists, are names; numbers without a name stay as they are.

    Args:
        fields: column -> value.
        features: `datasets.Features` of the row.

    >>> from datasets import ClassLabel, Features, Value
    >>> with_names({"text": "hi", "label": 1}, Features(text=Value("string"), label=ClassLabel(names=["bad", "good"])))
    {'text': 'hi', 'label': 'good'}
    """
    return {column: _name(value, features.get(column)) for column, value in fields.items()}


def _name(value: Any, feature: Any) -> Any:
    if isinstance(value, list):
        inner = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
        return [_name(one, inner) for one in value] if inner is not None else value
    names = getattr(feature, "names", None)
    return names[value] if names and isinstance(value, int) and 0 <= value < len(names) else value
