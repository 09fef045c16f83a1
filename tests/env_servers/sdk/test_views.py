"""What a view may be: bounded, named, and for markup without script or anything from elsewhere."""

import pytest

from env_servers.sdk import MediaType, UnfitView, View
from env_servers.sdk.views import MAX_VIEW_BYTES, content_flaws, require_fit

PNG = b"\x89PNG\r\n\x1a\n and so on"


def view(content=b"", media_type=MediaType.TEXT, name="map", title="Map"):
    return View(name, title, media_type, content)


def test_views_within_the_limits_are_fit():
    require_fit([view(b"x" * MAX_VIEW_BYTES), view(b"x" * MAX_VIEW_BYTES, name="other")])


@pytest.mark.parametrize(
    ("views", "reason"),
    [
        ([view(name=f"v{number}") for number in range(17)], "at most 16"),
        ([view(), view()], "the same name"),
        ([view(name="The map")], "must be"),
        ([view(name="")], "must be"),
        ([view(title="")], "no short line"),
        ([view(title="two\nlines")], "no short line"),
        ([View("map", "Map", "image/gif", b"")], "image/svg"),
        ([view(b"x" * (MAX_VIEW_BYTES + 1))], "at most 4,194,304"),
        ([view(b"x" * MAX_VIEW_BYTES, name=name) for name in "abc"], "together"),
    ],
)
def test_unfit_views_say_why(views, reason):
    with pytest.raises(UnfitView, match=reason):
        require_fit(views)


def svg(inside):
    text = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1">{inside}</svg>'
    return text.encode()


@pytest.mark.parametrize(
    "good",
    [
        view(PNG, MediaType.PNG),
        view(b"lines\n"),
        view(b'{"a": [1]}', MediaType.JSON),
        view(svg('<g fill="url(#pattern)"><use href="#shape"/></g>'), MediaType.SVG),
        view(svg("<style>text{fill:var(--ink)}</style><text>&lt;script&gt;</text>"), MediaType.SVG),
        view(b"<!DOCTYPE html><p>one<br>two</p>", MediaType.HTML),
        view(b'<img alt="" src="data:image/png;base64,AAAA">', MediaType.HTML),
    ],
)
def test_harmless_content_has_no_flaws(good):
    assert list(content_flaws(good)) == []


@pytest.mark.parametrize(
    ("bad", "flaw"),
    [
        (view(b"GIF89a", MediaType.PNG), "no PNG"),
        (view(b"\xff"), "no UTF-8"),
        (view(b"\x1b[2J"), "control characters"),
        (view(b"{", MediaType.JSON), "no JSON"),
        (view(b"<svg/>", MediaType.SVG), "namespace"),
        (view(svg("<g>"), MediaType.SVG), "closes g"),
        (view(svg("<script>x</script>"), MediaType.SVG), "<script>"),
        (view(svg("<foreignObject/>"), MediaType.SVG), "<foreignobject>"),
        (view(svg('<use href="https://other"/>'), MediaType.SVG), "points outside"),
        (view(b"<p onclick='x'>a</p>", MediaType.HTML), "event handler onclick"),
        (view(b"<a href='javascript:x'>a</a>", MediaType.HTML), "points outside"),
        (view(b"<img src='/pixel.png'>", MediaType.HTML), "points outside"),
        (view(b"<p style='background:url(//x)'>a</p>", MediaType.HTML), "loads something"),
        (view(b"<style>@import '//x';</style>", MediaType.HTML), "style loads something"),
        (view(b"<meta http-equiv='refresh' content='0'>", MediaType.HTML), "http-equiv"),
        (view(b"<form></form>", MediaType.HTML), "<form>"),
        (view(b"<p>open", MediaType.HTML), "never closed: p"),
    ],
)
def test_what_must_not_be_shown_is_found(bad, flaw):
    assert any(flaw in found for found in content_flaws(bad))
