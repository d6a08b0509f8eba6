"""Shows what a model does: figures, traces, pages and the web page."""
