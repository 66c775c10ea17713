"""The report: what its notebook shows, and how that becomes PDF, HTML and LaTeX."""
