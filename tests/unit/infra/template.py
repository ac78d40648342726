"""template.yaml as data: CloudFormation's short tags become their long form."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]


class Loader(yaml.SafeLoader):
    pass


def _tag(loader: Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    return {"Ref" if suffix == "Ref" else f"Fn::{suffix}": value}


Loader.add_multi_constructor("!", _tag)


@cache
def load(name: str = "template.yaml") -> dict[str, Any]:
    return dict(yaml.load((ROOT / name).read_text(), Loader=Loader))


def resources(kind: str) -> dict[str, dict[str, Any]]:
    """Logical id → properties of every resource of a type."""
    found = load()["Resources"]
    return {name: body["Properties"] for name, body in found.items() if body["Type"] == kind}


def functions() -> dict[str, tuple[str, dict[str, Any]]]:
    """Entry point's name → logical id and properties."""
    found = resources("AWS::Serverless::Function")
    return {body["Handler"].split(".")[-2]: (logical, body) for logical, body in found.items()}


def statements(function: dict[str, Any]) -> list[dict[str, Any]]:
    return [statement for policy in function["Policies"] for statement in policy["Statement"]]


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
