"""nDPI's words become classes, or no class."""

from __future__ import annotations

import pytest

from netrepro.errors import NetreproError
from netrepro.traffic import classify_inspected, inspect_capture


@pytest.mark.parametrize(
    ("application", "category", "expected"),
    [
        ("HTTP", "Web", "WEB"),
        ("TLS.Google", "Web", "WEB"),
        ("SMTPS.Google", "Email", "MAILS"),
        ("Thunderbird", "Email", "MAILS"),
        ("BitTorrent", "Download", "P2P"),
        ("TLS.Skype_Teams", "VoIP", "SKYPE"),
        ("SSH", "RemoteAccess", "OTHERS"),
        ("Unknown", "Unspecified", None),
        ("", "", None),
    ],
)
def test_a_name_or_else_its_category_gives_the_class(application, category, expected):
    assert classify_inspected(application, category) == expected


def test_a_file_that_is_no_capture_is_refused(tmp_path):
    path = tmp_path / "text.pcap"
    path.write_text("nothing")
    with pytest.raises(NetreproError, match="is not a capture"):
        inspect_capture(path)
