"""Floor 2: published numbers, verdicts, scorecard."""
