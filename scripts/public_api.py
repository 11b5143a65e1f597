"""A rule for import-linter: what lies in a package is imported through its public API.

A module may import the modules of its own package and of the packages around it; of any other
package it imports the names that its ``__init__`` offers.
"""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class PublicApi(Contract):
    """No import goes around a package's ``__init__``."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Every direct import of a module below the root's packages from outside its package."""
        around = []
        for importer in sorted(graph.modules):
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                package = imported.rpartition(".")[0]
                # A package, or a module that lies in none of the root's.
                if package.count(".") == 0 or graph.find_children(imported):
                    continue
                if importer != package and not importer.startswith(f"{package}."):
                    details: list[dict[str, Any]] = list(
                        graph.get_import_details(importer=importer, imported=imported)
                    )
                    around.append((importer, imported, details[0]["line_number"]))
        return ContractCheck(kept=not around, metadata={"around": around})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Which module imports what, and where."""
        for importer, imported, line in check.metadata["around"]:
            package = imported.rpartition(".")[0]
            output.print_error(f"{importer}:{line} imports {imported}: import it from {package}")
