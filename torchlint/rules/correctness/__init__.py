"""What makes training silently wrong."""
