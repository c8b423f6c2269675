"""Real handwritten digits that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from trainless.core.task import Task
from trainless.tasks.assemble import assemble
from trainless.tasks.reading import Reading, Samples


def digits(*, seed: int = 0) -> Task:
    """1,797 handwritten digits of 8×8 pixels in 10 classes (UCI optical recognition, test part; scikit-learn).

    Args:
        seed: Of the split.

    Example:
        >>> made = digits()
        >>> len(made.train) + len(made.valid) + len(made.test)
        1797
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    samples = Samples(bunch.images.astype(np.uint8), bunch.target)
    return assemble("digits", {"train": samples}, Reading(seed=seed), [str(digit) for digit in range(10)])
