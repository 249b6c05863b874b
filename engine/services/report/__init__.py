"""The report: one document on a whole project, as HTML or Markdown."""
