"""What the release is still good for. One file per measure."""
