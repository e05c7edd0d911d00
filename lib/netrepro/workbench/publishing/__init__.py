"""What is published: results, releases, the scorecard, comparisons, exports, and pages with live experiments."""
