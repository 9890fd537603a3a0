"""An import contract of our own for import-linter: who may import the faces of a room.

A face is a module or package that answers people or programs: pages, forms, addresses, API, command line. Rules know no
face, and a face knows its own room's faces only. Modules that put rooms together, such as the root's urls, know all.
"""

from __future__ import annotations

from collections.abc import Iterator

import grimp
from importlinter import Contract, ContractCheck, fields, output
from importlinter.application.contract_utils import AlertLevel, remove_ignored_imports


class FacesContract(Contract):
    """Only the same room's faces, and `composers`, import a face of a room of `package`.

    `frames` are rooms that hold no capability but what faces are built from; theirs count as no faces.
    """

    type_name = "faces"

    package = fields.StringField()
    faces = fields.ListField(subfield=fields.StringField())
    frames = fields.ListField(subfield=fields.StringField())
    composers = fields.ListField(subfield=fields.StringField())
    ignore_imports = fields.SetField(subfield=fields.ImportExpressionField(), required=False)

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        warnings = remove_ignored_imports(
            graph=graph,
            ignore_imports=self.ignore_imports,  # type: ignore[arg-type]
            unmatched_alerting=AlertLevel.ERROR,
        )
        broken = sorted(self._broken(graph))
        return ContractCheck(kept=not broken, warnings=warnings, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported, why in check.metadata["broken"]:
            output.print_error(f"{importer} -> {imported}: {why}", bold=False)

    def _broken(self, graph: grimp.ImportGraph) -> Iterator[tuple[str, str, str]]:
        for imported in graph.modules:
            room, is_face = self._place(imported)
            if not is_face:
                continue
            for importer in graph.find_modules_that_directly_import(imported):
                if self._composes(importer):
                    continue
                home, knows_faces = self._place(importer)
                if not knows_faces:
                    yield importer, imported, "a rule imports a face"
                elif home != room:
                    yield importer, imported, "a face imports another room's face"

    def _place(self, module: str) -> tuple[str, bool]:
        """The room of a module, and whether it is (in) a face."""
        package, _, rest = module.partition(".")
        room, *parts = rest.split(".")
        is_room = package == self.package and room not in self.frames  # type: ignore[operator]
        return room, is_room and any(part in self.faces for part in parts)  # type: ignore[operator]

    def _composes(self, module: str) -> bool:
        return any(module == one or module.startswith(f"{one}.") for one in self.composers)  # type: ignore[attr-defined]
