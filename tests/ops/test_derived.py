"""Forms of weights that are made once."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from antiphon.ops.derived import Derived


def test_made_once_for_a_version_and_its_parameters() -> None:
    derived: Derived[Tensor] = Derived()
    weight = torch.ones(3)
    doubled = derived.get(weight, lambda: weight * 2)
    assert derived.get(weight, lambda: weight * 2) is doubled
    weight.add_(1)
    assert derived.get(weight, lambda: weight * 2).tolist() == [4, 4, 4]
    assert derived.get(weight, lambda: weight * 3, 3).tolist() == [6, 6, 6]


def test_a_thread_takes_what_another_is_making() -> None:
    """Two values of one weight would free the first one's memory while a kernel reads it."""
    derived: Derived[Tensor] = Derived()
    weight = torch.ones(3)
    found: list[Tensor] = []
    other = threading.Thread(target=lambda: found.append(derived.get(weight, lambda: weight * 3)))

    def make() -> Tensor:
        other.start()
        other.join(0.2)
        return weight * 2

    made = derived.get(weight, make)
    other.join()
    assert found[0] is made
