"""Models that the tests of the command line plan."""

from __future__ import annotations

from pathlib import Path

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
SQUEEZENET = str(DATASETS / "light_squeezenet.json")

TINY = "id,lower,upper,size\na,0,2,4\nb,1,3,8\nc,2,4,4\n"
