"""How levels and verdicts look, everywhere: badges, colours, signs."""

BADGES = {
    "replicated": "●",
    "replicated with differences": "◕",
    "partly": "◑",
    "not reproduced": "○",
    "undecided": "◌",
    "not measured": "·",
}
VERDICT_LOOKS = {  # colour and sign; Okabe and Ito's colours, and signs for who sees none
    "agrees": ("#009E73", "✓"),
    "agrees in direction": ("#56B4E9", "≈"),
    "disagrees": ("#D55E00", "✗"),
    "untrusted": ("#E69F00", "?"),
    "not measured": ("#dddddd", ""),
}
SIGNS = {verdict: sign or "·" for verdict, (_, sign) in VERDICT_LOOKS.items()} | {"not_counted": "□"}
