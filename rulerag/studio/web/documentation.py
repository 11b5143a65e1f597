"""The page ``/docs``: the OpenAPI description as plain HTML, without a script from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rulerag.explanation.views import rendered


def documentation_page(description: Mapping[str, Any]) -> str:
    """Every operation with its fields and a call.

    Args:
        description: the OpenAPI object.
    """
    schemas = description.get("components", {}).get("schemas", {})
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["other"])[0]
            groups.setdefault(tag, []).append(_row(path, method, operation, schemas))
    about = description["info"]
    return rendered(
        __package__,
        "documentation.html.j2",
        title=about["title"],
        version=about["version"],
        description=about.get("description", ""),
        groups=list(groups.items()),
    )


def _row(
    path: str, method: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]
) -> dict[str, Any]:
    fields = list(_fields(operation, schemas))
    needs_body = any(where == "body" for _, where, _, _ in fields)
    sent = " -H 'Content-Type: application/json' -d '{…}'" if needs_body else ""
    verb = "" if method == "get" else f" -X {method.upper()}"
    return {
        "method": method.upper(),
        "path": path,
        "summary": operation.get("summary", ""),
        "about": operation.get("description", ""),
        "fields": fields,
        "example": f"curl -s{verb} http://127.0.0.1:8080{path}{sent}",
    }


def _fields(
    operation: Mapping[str, Any], schemas: Mapping[str, Any]
) -> Iterator[tuple[str, str, str, str]]:
    """Name, place, type and whether it is needed, of every parameter and field of the body."""
    for one in operation.get("parameters", ()):
        needed = "yes" if one.get("required") else "no"
        yield one["name"], one["in"], _kind(one["schema"]), needed
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    held = schemas.get(schema.get("$ref", "").rpartition("/")[2], schema)
    for name, one in held.get("properties", {}).items():
        yield name, "body", _kind(one), "yes" if name in held.get("required", ()) else "no"


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(map(_kind, schema[key])))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("const", schema.get("type", "any")))
