"""`WyomingPlan`: address at which a server listens for Wyoming clients, and whether it is announced."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.dependencies import import_dependency
from antiphon.errors import InvalidRequestError
from antiphon.server.serving.setup.settings import ServerSettings
from antiphon.server.web.access.hosts import is_loopback


@dataclass(frozen=True)
class WyomingPlan:
    host: str
    port: int
    is_announced: bool

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach the address."""
        return not is_loopback(self.host)

    @classmethod
    def of(cls, settings: ServerSettings) -> WyomingPlan | None:
        """Return the plan, or None if the server does not speak Wyoming. Raise if its settings conflict."""
        port, is_announced = settings["wyoming"], settings["wyoming_zeroconf"]
        if port is None:
            if is_announced:
                raise InvalidRequestError("wyoming_zeroconf announces the Wyoming server; set its port with wyoming")
            return None
        plan = cls(settings["wyoming_host"], port, is_announced)
        if is_announced and not plan.is_open:
            raise InvalidRequestError(
                f"wyoming_zeroconf announces the server on the network, which cannot reach {plan.host}; "
                "set wyoming_host to an address of this machine or 0.0.0.0"
            )
        if is_announced:
            import_dependency("zeroconf", "wyoming_zeroconf")
        return plan
