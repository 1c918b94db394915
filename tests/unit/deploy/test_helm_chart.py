"""The Helm chart without Helm: its values and their schema. tests/matrix/test_helm.py has the rest."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import jsonschema
import pytest
import yaml

from tests.unit.deploy.deployed import ROOT

CHART = ROOT / "deploy" / "helm" / "kproxy"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def paths(values: dict[str, Any], schema: dict[str, Any], before: str = "") -> set[str]:
    """Each value with a name of its own in the schema."""
    found = set()
    for name in {*values, *schema.get("properties", {})}:
        inner = schema.get("properties", {}).get(name, {})
        if "properties" in inner:
            found |= paths(values.get(name, {}), inner, f"{before}{name}.")
        else:
            found.add(f"{before}{name}")
    return found


def test_the_chart_is_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_the_values_fit_the_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)


def test_each_value_is_in_both_files_and_in_a_template() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    known = paths(VALUES, SCHEMA) - {"global"}
    for path in known:
        value: Any = VALUES
        for name in path.split("."):
            value = value[name]  # has a default
        # `with .Values.image` gives short names.
        assert re.search(rf"\.{re.escape(path)}\b|[ (]\.{path.rpartition('.')[2]}\b", templates), path


@pytest.mark.parametrize(
    "wrong",
    [
        {"king": "Deployment"},
        {"kind": "StatefulSet"},
        {"ports": {"bootstrap": 0}},
        {"ports": {"firstNode": 65536}},
        {"ports": {"nodes": 0}},
        {"ports": {"node": 3}},
        {"config": "bootstrap-servers: kafka:9092"},
        {"secrets": "kafka"},
        {"image": {"digest": "latest"}},
        {"networkPolicy": {"clients": [{}, "all"]}},
        {"terminationGracePeriodSeconds": 5},
        {"fullnameOverride": "9kproxy"},
        {"advertise": "kafka example"},
    ],
    ids=str,
)
def test_a_mistake_does_not_fit(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, SCHEMA)
