"""Images of observations: what fits, and what identifies them."""

import pytest

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import Image, ImageType, Observation, UnfitImage
from env_servers.sdk.contract.observations import flaws
from env_servers.sdk.images import MAX_IMAGE_BYTES, MAX_IMAGES, proof_of, require_fit
from env_servers.toolkit.png import encode_png

SMALL = Image(ImageType.PNG, encode_png(2, bytes((0, 1, 1, 0)), b"\xff\0\0\0\0\xff"))


@pytest.mark.parametrize(
    ("images", "reason"),
    [
        ([SMALL] * (MAX_IMAGES + 1), "at most"),
        ([SMALL._replace(content=SMALL.content.ljust(MAX_IMAGE_BYTES + 1))], "image 1 has"),
        ([SMALL._replace(content=SMALL.content.ljust(MAX_IMAGE_BYTES))] * 3, "together"),
        ([Image("image/svg+xml", b"<svg/>")], "valid: image/png"),  # pyright: ignore[reportArgumentType]
        ([SMALL._replace(media_type=ImageType.JPEG)], "says that it is image/jpeg"),
    ],
)
def test_what_cannot_be_sent_is_named(images, reason):
    with pytest.raises(UnfitImage, match=reason):
        require_fit(images)


def test_images_are_identified_by_type_content_and_order():
    other = Image(ImageType.PNG, encode_png(1, b"\0", b"\0\0\0"))
    jpeg = Image(ImageType.JPEG, SMALL.content)
    proofs = {proof_of(it) for it in ([], [SMALL], [other], [jpeg], [SMALL, other], [other, SMALL])}
    assert len(proofs) == 6
    assert proof_of(()) == b""


def test_an_environment_that_hides_its_images_is_told():
    spec = EchoEnvironment.spec
    shown = Observation("text", images=(SMALL,))
    assert not list(flaws(shown, spec))
    silent = type("Silent", (), {"has_images": False, "has_score": False})
    assert list(flaws(shown, silent)) == ["it has images, and the spec says has_images=False"]  # pyright: ignore[reportArgumentType]


def test_pngs_have_the_same_bytes_everywhere():
    assert SMALL.content.hex() == (
        "89504e470d0a1a0a0000000d49484452000000020000000208030000004568fd16"
        "00000006504c5445ff00000000ff6ca1fd8e"
        "00000011494441547801010600f9ff000001000100000c000348bb623b"
        "0000000049454e44ae426082"
    )
    with pytest.raises(ValueError, match="no rows"):
        encode_png(2, b"\0\0\0", b"\0\0\0")
    with pytest.raises(ValueError, match="no palette"):
        encode_png(1, b"\0", b"\0\0")
