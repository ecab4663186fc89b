"""Write figures and tables as one HTML page."""
