"""Floor 4: what a person starts."""
