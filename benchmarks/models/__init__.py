"""What pretrained models do with questions whose truth is known."""
