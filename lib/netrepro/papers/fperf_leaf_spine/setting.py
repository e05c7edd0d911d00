"""Sizes, and what a profile affords."""

from __future__ import annotations

from dataclasses import dataclass

from netrepro.study import of_profile

Size = tuple[int, int, int]  # spines, leaves, hosts


@dataclass(frozen=True)
class Scale:
    """Sizes, steps and the most seeds of a profile; for the slow reference encoding, seeds per size and steps."""

    sizes: tuple[Size, ...]
    horizon: int
    most_seeds: int
    reference_seeds: dict[Size, int]
    reference_horizon: int
    search_sizes: tuple[Size, ...]

    def seeds(self, repetitions: int, first: int) -> list[int]:
        """Return `repetitions` seeds from the first on, as far as the profile takes them."""
        return list(range(first, first + min(repetitions, self.most_seeds)))


SCALES = {
    "quick": Scale(
        sizes=((2, 2, 4), (2, 3, 6), (2, 4, 8), (2, 5, 10)),
        horizon=8,
        most_seeds=2,
        reference_seeds={(2, 2, 4): 1},
        reference_horizon=6,
        search_sizes=((2, 2, 4), (2, 3, 6)),
    ),
    "paper": Scale(
        sizes=((2, 2, 4), (2, 3, 6), (2, 4, 8), (2, 5, 10), (2, 6, 12), (3, 4, 12), (4, 4, 16)),
        horizon=10,
        most_seeds=5,
        reference_seeds={(2, 2, 4): 5, (2, 3, 6): 5},  # S2-L4-H8: more than ten minutes each
        reference_horizon=10,
        search_sizes=((2, 2, 4), (2, 3, 6), (2, 4, 8), (2, 5, 10)),
    ),
}


def scale(profile: str) -> Scale:
    """Return the sizes of a profile. Raises NetreproError for an unknown one."""
    return of_profile(profile, SCALES)


def size_name(size: Size) -> str:
    """Name a size as Si-Lj-Hk, as in Figure 7c."""
    return f"S{size[0]}-L{size[1]}-H{size[2]}"
