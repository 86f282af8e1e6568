"""What commands print, page by page."""
