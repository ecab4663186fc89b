"""Figures and tables as one HTML page."""
