"""Files of a TLS certificate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import InvalidRequestError


@dataclass(frozen=True)
class TLSFiles:
    """Certificate with its chain, and its key, as PEM files."""

    certificate: Path
    key: Path

    def check(self) -> None:
        """Raise if the files cannot be read or do not match."""
        import ssl

        for path in (self.certificate, self.key):
            if not path.is_file():
                raise InvalidRequestError(f"there is no TLS file {path}")
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            message = f"the TLS files {self.certificate} and {self.key} cannot be used: {error.strerror or error}"
            raise InvalidRequestError(message) from error
