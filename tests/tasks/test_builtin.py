from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import uniform_filter
from scipy.signal import find_peaks
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from trainless.core.errors import InputError
from trainless.tasks import task


def test_digits_are_scikit_learns() -> None:
    made = task("digits")
    assert (made.input_shape, made.dims, made.target.kind, made.target.outputs) == ((1, 8, 8), 2, "multiclass", 10)
    ours = np.concatenate([part.x[:] for part in (made.train, made.valid, made.test) if part]).reshape(-1, 64)
    theirs = load_digits().data
    assert sorted(map(tuple, ours.tolist())) == sorted(map(tuple, theirs.tolist()))


@pytest.mark.parametrize(
    ("name", "options"), [("ecg-sim", {"samples": 40}), ("nodule-sim", {"samples": 12, "size": 8}), ("digits", {})]
)
def test_built_ins_are_the_same_every_time_and_differ_by_seed(name: str, options: dict[str, int]) -> None:
    prints = [task(name, **options, seed=seed).fingerprint for seed in (0, 0, 1)]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.slow
def test_ecg_sim_can_be_learnt_and_says_that_it_is_simulated() -> None:
    made = task("ecg-sim")
    assert made.input_shape == (1, 256)
    assert "simulated rhythms, not recordings" in made.notes
    (x, y), (u, v) = (made.tensors(part) for part in ("train", "test"))  # type: ignore[arg-type]
    spectra = [np.log1p(np.abs(np.fft.rfft(a.numpy()[:, 0]))) for a in (x, u)]
    model = LogisticRegression(max_iter=2000, C=0.1).fit(spectra[0], y)
    assert 0.6 < model.score(spectra[1], v) < 1


def test_tachycardia_has_about_twice_the_beats() -> None:
    made = task("ecg-sim", noise=0.0)
    x, y = made.tensors("train")
    peaks = [len(find_peaks(signal, prominence=0.6 * np.ptp(signal))[0]) for signal in x.numpy()[:, 0]]
    rate = [np.mean([p for p, label in zip(peaks, y, strict=True) if label == k]) for k in (0, 2)]
    assert 1.6 < rate[1] / rate[0] < 2.6


def test_a_nodule_is_seen_by_its_bulk_but_not_by_brightness() -> None:
    made = task("nodule-sim")
    assert made.input_shape == (1, 16, 16, 16)
    assert "simulated volumes, not scans" in made.notes
    x, y = made.tensors("train")
    volumes = x.numpy()[:, 0]
    bulk = [uniform_filter(volume, 4).max() for volume in volumes]
    assert roc_auc_score(y, bulk) > 0.75
    assert 0.3 < roc_auc_score(y, volumes.mean((1, 2, 3))) < 0.7


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ecg-sim", {"samples": 3}),
        ("ecg-sim", {"length": 9}),
        ("nodule-sim", {"size": 4}),
        ("tiny-text", {"sentences": 0}),
    ],
)
def test_options_out_of_range(name: str, options: dict[str, int]) -> None:
    with pytest.raises(InputError, match="given; expected at least"):
        task(name, **options)
