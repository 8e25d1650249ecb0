"""What networks of every kind share: a network can be written to a file."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

__all__ = ["Saved"]


class Saved:
    """A network that can be written to a file."""

    __slots__ = ()

    def save(
        self,
        path: str | PathLike[str],
        *,
        features: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        noise: tuple[float, float] | None = None,
    ) -> None:
        """Write the network to a safetensors file; `planted.load_network` reads it back.

        Parameters
        ----------
        path : path-like
            Where to write. An existing file is replaced only when the new one is complete.
        features, targets : sequence of str, optional
            Names of the inputs and of the outputs, kept in the file.
        noise : (float, float), optional
            Standard deviation of a new output about its prediction and its degrees of freedom, kept in the file.
        """
        from planted.io.networks._safetensors import save_network

        save_network(self, path, features=features, targets=targets, noise=noise)  # type: ignore[arg-type]
