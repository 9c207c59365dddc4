#!/usr/bin/env python3
"""Reads YAML documents from the standard input and prints them as a JSON array.

    objects.py                          any YAML
    objects.py SCHEMAS VERSION...       objects of Kubernetes, each validated

Each object has to be valid by the schema of its kind: of each of these versions of Kubernetes, where no unknown member
is allowed, or of the resource definitions in the folder SCHEMAS, for objects of the Prometheus operator.
"""

import json
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml


def closed(schema):
    """The schema, with the members forbidden that it does not name."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: closed(value) for name, value in schema.items()}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    if isinstance(schema.get("pattern"), str):
        # Go has flags anywhere, Python at the start.
        schema["pattern"] = schema["pattern"].replace("^(?i)", "(?i)^")
    return schema


def operators(folder):
    """The schema of each kind that the folder defines."""
    schemas = {}
    for path in pathlib.Path(folder).glob("*.yaml"):
        spec = yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]
        for version in spec["versions"]:
            schema = closed(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            schemas[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return schemas


def main():
    objects = [one for one in yaml.safe_load_all(sys.stdin) if one is not None]
    if len(sys.argv) > 1:
        folder, *versions = sys.argv[1:]
        defined = operators(folder)
        for one in objects:
            kind = one["apiVersion"], one["kind"]
            try:
                if kind in defined:
                    jsonschema.validate(one, defined[kind])
                    continue
                for version in versions:
                    kubernetes_validate.validate(one, version, strict=True)
            except (jsonschema.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                sys.exit(f"{one['kind']} {one['metadata']['name']}: {error}")
    json.dump(objects, sys.stdout)


main()
