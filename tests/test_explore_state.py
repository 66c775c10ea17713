"""The explorer of the RNN's memory: what it draws, and that it follows the slider."""

import torch

from replication.experiments.derivation.figures import memory, state_explorer

K = torch.rand(5, 3, generator=torch.Generator().manual_seed(0)) + 0.1
V = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
S, Z = (K[:, :, None] * V[:, None, :]).cumsum(0), K.cumsum(0)
OUT = torch.einsum("nc,ncm->nm", K, S) / (K * Z).sum(1, keepdim=True)


def drawn(i):
    panels = memory(S.numpy(), Z.numpy(), OUT.numpy(), i).axes
    images = [panel.images[0].get_array() for panel in panels[:2]]
    bars = [[bar.get_width() for bar in panel.patches] for panel in panels[2:]]
    return [torch.tensor(values, dtype=S.dtype) for values in (*images, *bars)]


def test_a_picture_shows_the_memory_what_was_added_and_the_output():
    for i in (1, 2, 5):
        whole, added, z, out = drawn(i)
        torch.testing.assert_close(whole, S[i - 1])
        torch.testing.assert_close(added, torch.outer(K[i - 1], V[i - 1]))
        torch.testing.assert_close(z, Z[i - 1])
        torch.testing.assert_close(out, OUT[i - 1])


def test_the_widget_redraws_when_the_slider_moves(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    box = state_explorer(S, Z, OUT)
    slider, picture = box.children[0].children[1], box.children[1]
    first = picture.value
    slider.value = 4
    assert picture.value != first
    assert bytes(picture.value).startswith(b"\x89PNG")
    assert (slider.min, slider.max) == (1, 5)


def test_without_a_reader_who_clicks_there_is_a_picture_of_the_last_token(monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    figure = state_explorer(S, Z, OUT)
    assert figure.axes[0].get_title() == "$S_{5}$"
