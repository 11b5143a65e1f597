"""What models do under the studio's attacks, and whether the studio holds out for hours."""
