"""Decodes what `sinew render` writes as video with another program's decoder, and compares it with the PNG frames.

    pip install av numpy
    python ci/check_video.py SINEW MODEL ANIMATION FOLDER

Fails if frames are missing, their times are not the ones asked for, or colours are off.
"""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

# Levels of 255. Chroma stands once in two by two pixels, so pixels at an edge between colours are off by tens of levels; these are
# few, and all together are hardly off.
NEARLY_ALL = 0.995
NEARLY_ALL_OFF = 8
MEAN_OFF = 0.5


def pictures(path):
    """The frames of a video or a picture, (height, width, 3) each, their times in seconds and what it says of its colours."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = list(container.decode(stream))
        rgb = [frame.to_ndarray(format="rgb24").astype(int) for frame in frames]
        return rgb, [frame.pts * stream.time_base for frame in frames], stream.codec_context


def main():
    sinew, model, animation, folder = sys.argv[1:]
    for size, fps, said in [("640x480", Fraction(24), "24"), ("321x243", Fraction(30000, 1001), "29.97")]:
        shared = [sinew, "render", model, "--animation", animation, "--frames", "every:4", "--errors", "--size", size]
        clip, frames = Path(folder) / f"{size}.mp4", Path(folder) / size
        subprocess.run([*shared, "--fps", said, "-o", clip], check=True)
        subprocess.run([*shared, "-o", f"{frames}/"], check=True)
        decoded, times, codec = pictures(clip)
        truth = [pictures(path)[0][0] for path in sorted(frames.glob("*.png"))]
        assert len(decoded) == len(truth) > 1, f"{clip}: {len(decoded)} frames of {len(truth)}"
        assert times == [k / fps for k in range(len(times))], f"{clip}: shown at {times}"
        assert (int(codec.colorspace), int(codec.color_range)) == (1, 1), f"{clip}: not BT.709 in the limited range"
        off = [np.abs(video[: png.shape[0], : png.shape[1]] - png) for video, png in zip(decoded, truth)]
        nearly_all, mean = max(np.quantile(o, NEARLY_ALL) for o in off), max(o.mean() for o in off)
        words = f"{100 * NEARLY_ALL} % of the pixels off by {nearly_all:.0f} levels at most, {mean:.2f} on average"
        assert nearly_all <= NEARLY_ALL_OFF and mean <= MEAN_OFF, f"{clip}: {words}"
        print(f"{clip.name}: {len(decoded)} frames, {words}")


main()
