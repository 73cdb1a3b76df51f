"""torchlint finds the documented mistakes that make PyTorch training slow or silently wrong."""

__version__ = "0.1.0"
