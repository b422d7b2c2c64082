"""The native source and spectra of the vocoder against the reference, in every instruction set."""

from __future__ import annotations

import pytest
import torch

from antiphon.ops import native
from antiphon.ops.sound import native as native_sound
from antiphon.ops.sound import vocoder

pytestmark = pytest.mark.skipif(not native.available(), reason="the extension was not built")
VARIANTS = pytest.mark.parametrize("variant", range(len(native.variants())), ids=native.variants())


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(23)


@VARIANTS
@pytest.mark.parametrize("hop", [300, 13])
def test_pulses_agree_with_the_reference(hop: int, variant: int, generator: torch.Generator) -> None:
    pitch = 30 + 300 * torch.rand(70, generator=generator)
    pitch[20:30] = 0.0
    arguments = pitch, hop, 24_000, 40.0, 11_000.0
    expected = vocoder.pulse_train(*arguments)
    got = native_sound.pulse_train(*arguments, threads=1, variant=variant)
    assert float((got - expected).norm() / expected.norm()) < 1e-3  # the highest harmonics turn by thousands of radians
    assert bool((got == 0.0).eq(expected == 0.0).all())
    assert torch.equal(native_sound.pulse_train(*arguments, threads=3, variant=variant), got)


@VARIANTS
def test_spectra_agree_with_the_reference(variant: int, generator: torch.Generator) -> None:
    frames, bins = 9, 601
    source, noise = (torch.randn(n, m, 2, generator=generator) for n, m in ((frames, bins), (bins, frames + 2)))
    spectra = torch.randn(frames, 5 * bins, generator=generator) * 4
    spectra[0, :4] = torch.tensor([-200.0, -60.0, 8.0, 100.0])
    arguments = torch.view_as_complex(source), spectra, torch.view_as_complex(noise)
    expected = vocoder.sum_spectra(*arguments)
    got = native_sound.sum_spectra(*arguments, threads=2, variant=variant)
    assert float(((got - expected).abs() / (expected.abs() + 1.0)).max()) < 1e-4
