"""What makes training slow or heavy, with the same result."""
