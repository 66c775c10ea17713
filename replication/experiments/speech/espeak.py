"""espeak-ng as a library, from a wheel: the phonemes of a text, and speech of which they are known.

The synthesis keeps a little noise from one utterance to the next, so the same sound comes only
from the same utterances in the same order, in a process of their own: ``synthetic`` sees to that.
"""

import ctypes
import re
from functools import cache

import numpy as np

from replication.store import StoreError

RETRIEVAL, NO_EXIT = 2, 0x8000
"""Sound comes back to the caller; an error of the library does not end the process."""
IPA, UTF8 = 0x02, 1
RATE, PITCH = 1, 3
SEPARATOR = "_"
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int,
                             ctypes.c_void_p)  # fmt: skip
_heard: list[np.ndarray] = []


@_Callback
def _hear(samples, count, _):
    if samples and count > 0:
        _heard.append(np.ctypeslib.as_array(samples, (count,)).copy())
    return 0


@cache
def _library() -> tuple[ctypes.CDLL, int]:
    """The library, begun, and its samples a second."""
    try:
        import espeakng_loader
    except ImportError as error:
        raise StoreError(
            "espeak-ng is not installed, which turns texts into phonemes. Install it with\n"
            "    pip install espeakng-loader"
        ) from error
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    rate = library.espeak_Initialize(
        RETRIEVAL, 0, str(espeakng_loader.get_data_path()).encode(), NO_EXIT
    )
    if rate <= 0:
        raise StoreError("espeak-ng does not find its data. Install espeakng-loader again.")
    library.espeak_SetSynthCallback(_hear)
    library.espeak_TextToPhonemes.restype = ctypes.c_char_p
    library.espeak_TextToPhonemes.argtypes = [
        ctypes.POINTER(ctypes.c_char_p), ctypes.c_int, ctypes.c_int,
    ]  # fmt: skip
    return library, rate


def _choose(voice: str) -> ctypes.CDLL:
    library, _ = _library()
    if library.espeak_SetVoiceByName(voice.encode()) != 0:
        raise ValueError(f"espeak-ng has no voice {voice!r}. Choose one such as cs or en-us+f3.")
    return library


def phonemes(text: str, voice: str) -> tuple[str, ...]:
    """In the letters of the IPA, without stress and without borders of words; maybe none."""
    library, found = _choose(voice), []
    rest = ctypes.c_char_p(text.encode())
    while rest.value is not None:
        part = library.espeak_TextToPhonemes(ctypes.byref(rest), UTF8, IPA | ord(SEPARATOR) << 8)
        found.append((part or b"").decode())
    return clean(" ".join(found))


def clean(written: str) -> tuple[str, ...]:
    """Phonemes as espeak-ng writes them, without marks of stress and of a change of language."""
    bare = re.sub(r"\([^)]*\)|[ˈˌ\u200d]", "", written)
    return tuple(part for part in re.split(rf"[\s{SEPARATOR}]+", bare) if part)


def speak(text: str, voice: str, rate: int, pitch: int) -> tuple[np.ndarray, int]:
    """Samples from -1 to 1, and how many of them make a second; ``rate`` is in words a minute."""
    library = _choose(voice)
    library.espeak_SetParameter(RATE, rate, 0)
    library.espeak_SetParameter(PITCH, pitch, 0)
    _heard.clear()
    content = text.encode()
    library.espeak_Synth(content, len(content) + 1, 0, 1, 0, UTF8, None, None)
    library.espeak_Synchronize()
    samples = np.concatenate(_heard) if _heard else np.zeros(0, np.int16)
    return samples.astype(np.float32) / 32768, _library()[1]
