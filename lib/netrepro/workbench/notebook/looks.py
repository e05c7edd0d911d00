"""The look of levels and verdicts on all pages: badges, colours, signs."""

BADGES = {
    "replicated": "●",
    "replicated with differences": "◕",
    "partly": "◑",
    "not reproduced": "○",
    "undecided": "◌",
    "not comparable": "=",
    "not measured": "·",
}
REPOSITORY = "https://github.com/netrepro/netrepro"
BINDER = "https://mybinder.org/v2/gh/netrepro/netrepro/main?urlpath=lab/tree/notebooks/00_start_here.ipynb"
# Artifact Review and Badging, version 1.1.
BADGING = (
    "In ACM's words these are replications: by another team, with artifacts of its own. Where a paper's claims agree, "
    "its badge would be Results Replicated; never Results Reproduced, which takes the authors' artifacts."
)
# Colour and sign of each result of `netrepro.claims.scorecard.look_of`. The colours are Okabe and Ito's; the signs are
# for readers who cannot tell colours apart.
VERDICT_LOOKS = {
    "agrees": ("#009E73", "✓"),
    "agrees in direction": ("#56B4E9", "≈"),
    "disagrees": ("#D55E00", "✗"),
    "settled": ("#CC79A7", "⊠"),  # it disagrees, and the experiment that settles why has run
    "undecided": ("#999999", "±"),
    "untrusted": ("#E69F00", "?"),
    "not judged": ("#bbbbbb", "="),
    "not measured": ("#dddddd", ""),
}
SIGNS = {verdict: sign or "·" for verdict, (_, sign) in VERDICT_LOOKS.items()} | {"not_counted": "□"}
