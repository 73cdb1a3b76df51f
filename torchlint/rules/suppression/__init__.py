"""What silences findings, and no longer needs to."""
