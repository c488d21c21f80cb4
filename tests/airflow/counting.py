"""A catalog that notes what is asked of it, and can be out of order."""

from typing import ClassVar

from pyiceberg.catalog.sql import SqlCatalog

IMPLEMENTATION = f"{__name__}.CountingCatalog"


class CountingCatalog(SqlCatalog):
    """Named in a connection's extra as ``py-catalog-impl``."""

    loads: ClassVar[list[str]] = []
    faults: ClassVar[dict[str, Exception]] = {}

    def load_table(self, identifier):
        name = ".".join(identifier)
        self.loads.append(name)
        if name in self.faults:
            raise self.faults[name]
        return super().load_table(identifier)
