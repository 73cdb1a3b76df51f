"""What earlier runs came to, so that a run has to look only at what changed."""
