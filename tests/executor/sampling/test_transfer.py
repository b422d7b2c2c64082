"""Tensors brought to the host in one copy."""

from __future__ import annotations

import pytest
import torch

from antiphon.executor.sampling.sampler import DrawnTokens
from antiphon.executor.sampling.transfer import Transfer

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
def test_values_arrive_in_their_shapes(device: str) -> None:
    tensors = [torch.randn(3, 4), torch.arange(5), torch.tensor([7], dtype=torch.int32), torch.randn(2, 1, 3)]
    transfer = Transfer()
    numbers = [transfer.add(tensor.to(device)) for tensor in tensors]
    transfer.start()
    transfer.fetch()
    assert transfer.has_arrived
    for number, tensor in zip(numbers, tensors, strict=True):
        assert transfer[number].shape == tuple(tensor.shape)
        assert transfer[number].tolist() == tensor.tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_handed_on_is_no_pinned_memory(device: str) -> None:
    """Whoever has it may free it at any time, also while a graph is captured."""
    transfer = Transfer()
    transfer.add(torch.randn(3, device=device))
    transfer.fetch()
    assert not transfer._words.is_pinned() and not torch.from_numpy(transfer[0]).is_pinned()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("count", [1, 2])
def test_what_a_later_step_writes_does_not_change_it(device: str, count: int) -> None:
    """With two steps in flight the second draws to the same memory before the first one's tokens are read."""
    drawn = [torch.tensor([1, 2, 3], dtype=torch.int32, device=device) for _ in range(count)]
    transfer = Transfer()
    for tensor in drawn:
        transfer.add(tensor)
    transfer.start()
    for tensor in drawn:
        tensor.fill_(9)
    assert DrawnTokens(transfer).result().tokens == [1, 2, 3]
    assert [transfer[number].tolist() for number in range(count)] == [[1, 2, 3]] * count


def test_a_slice_of_columns_is_read_as_it_is() -> None:
    values = torch.arange(12).view(3, 4).float()
    transfer = Transfer()
    transfer.add(values[:, 1:3])
    transfer.fetch()
    assert transfer[0].tolist() == [[1.0, 2.0], [5.0, 6.0], [9.0, 10.0]]


def test_a_transfer_of_nothing_is_there_at_once() -> None:
    transfer = Transfer()
    transfer.start()
    assert transfer.has_arrived
    transfer.fetch()
